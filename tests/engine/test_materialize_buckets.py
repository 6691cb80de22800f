"""Stores in a bucket, on a local S3 server."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

from chunkloom import array_volume, materialize, open_volume
from chunkloom.engine.materialize import plan_materialize
from chunkloom.errors import ChunkError, ChunkloomError, ConflictError
from chunkloom.io.remote import forget_credentials

from .test_materialize import BOX, INSIDE, Counted, volume, whole


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("moto")
    import boto3
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        made = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        made.start()
        host, port = made.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
        client.create_bucket(Bucket="kept")
        yield f"http://{host}:{port}", client
        made.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    endpoint, client = server
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    forget_credentials()
    yield client
    forget_credentials()


def keys(client, prefix):
    found = client.list_objects_v2(Bucket="kept", Prefix=prefix).get("Contents", [])
    return sorted(item["Key"] for item in found)


def test_a_box_in_a_bucket_is_the_store_that_a_folder_gets(bucket, tmp_path):
    for word in ("zarr2", "zarr3", "n5", "precomputed"):
        done = materialize(volume(), f"s3://kept/box/{word}", box=BOX, format=word, name="v", codec="none", pyramid=1)
        local = materialize(volume(), tmp_path / word, box=BOX, format=word, name="v", codec="none", pyramid=1)
        assert (done.done, done.written, done.bytes) == (local.done, local.written, local.bytes)
        expected = {p.relative_to(tmp_path / word).as_posix(): p for p in (tmp_path / word).rglob("*") if p.is_file()}
        assert keys(bucket, f"box/{word}") == sorted(f"box/{word}/{key}" for key in expected)
        for key, path in expected.items():
            assert bucket.get_object(Bucket="kept", Key=f"box/{word}/{key}")["Body"].read() == path.read_bytes()
    np.testing.assert_array_equal(open_volume("s3://kept/box/zarr3").read(), whole()[INSIDE])


def test_an_interrupted_run_is_gone_on_with(bucket):
    with pytest.raises(ChunkError):
        materialize(Counted(volume(), fails=[(1, 2, 1)]), "s3://kept/again", box=BOX, concurrency=1)
    attributes = json.loads(bucket.get_object(Bucket="kept", Key="again/zarr.json")["Body"].read())["attributes"]
    assert "chunkloom_unfinished" in attributes
    counted = Counted(volume())
    materialize(counted, "s3://kept/again", box=BOX)
    assert 0 < len(counted.asked) < 18
    assert keys(bucket, "again.unfinished") == []
    np.testing.assert_array_equal(open_volume("s3://kept/again").read(), whole()[INSIDE])


def test_what_is_there_is_replaced_only_when_asked(bucket):
    materialize(volume(), "s3://kept/once")
    with pytest.raises(ConflictError, match="overwrite"):
        materialize(volume(), "s3://kept/once", box=BOX)
    materialize(volume(), "s3://kept/once", box=((0, 5), (0, 5), (0, 5)), overwrite=True)
    assert keys(bucket, "once") == ["once/0/c/0/0/0", "once/0/zarr.json", "once/zarr.json"]


def test_two_live_runs_are_not_allowed_and_an_expired_lease_is_taken_over(bucket):
    begun, go_on = threading.Event(), threading.Event()

    def wait(index, work):
        begun.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=materialize, args=(Counted(volume(), wait=wait), "s3://kept/lock"))
    thread.start()
    try:
        assert begun.wait(30)
        held = json.loads(bucket.get_object(Bucket="kept", Key="lock.unfinished/lock")["Body"].read())
        elsewhere = json.dumps({**held, "host": "another"})
        bucket.put_object(Bucket="kept", Key="lock.unfinished/lock", Body=elsewhere.encode())
        with pytest.raises(ConflictError, match="on another"):
            materialize(volume(), "s3://kept/lock")
    finally:
        go_on.set()
        thread.join()
    expired = json.dumps({**held, "host": "another", "renewed": time.time() - 1000})
    bucket.put_object(Bucket="kept", Key="lock.unfinished/lock", Body=expired.encode())
    materialize(volume(), "s3://kept/lock", overwrite=True)
    assert keys(bucket, "lock.unfinished") == []


def test_a_bucket_that_is_not_there_is_said(bucket):
    with pytest.raises(ChunkloomError, match=r"s3://absent"):
        materialize(volume(), "s3://absent/a")


def test_the_plan_needs_no_bucket(monkeypatch):
    plan = plan_materialize(array_volume(whole(), chunk=(16, 16, 16)), "gs://absent/a", box=BOX)
    assert plan.arrays[0][2].total == 18
