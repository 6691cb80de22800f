"""s3:// against real S3 servers, and gs:// against a local stand-in for its endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chunkloom.errors import AccessError, VolumeNotFoundError
from chunkloom.io import read_array_meta

from .servers import FolderServer, files_below, put, s3rver
from .test_remote import DATA, KINDS, read_all, write


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """The same array in every format: folder and name by kind."""
    folders = {}
    for kind in KINDS:
        root = tmp_path_factory.mktemp(kind)
        folders[kind] = (root, write(root, kind))
    return folders


@pytest.fixture(scope="module")
def anonymous(tmp_path_factory: pytest.TempPathFactory, everything: dict[str, tuple[Path, str]]) -> Iterator[str]:
    with s3rver(tmp_path_factory.mktemp("s3"), "volumes") as endpoint:
        for kind, (root, _) in everything.items():
            for key, content in files_below(root):
                put(endpoint, "volumes", f"{kind}/{key}", content)
        yield endpoint


@pytest.mark.parametrize("kind", KINDS)
def test_public_bucket_is_read_without_credentials(
    anonymous: str, everything: dict[str, tuple[Path, str]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", anonymous)
    np.testing.assert_array_equal(read_all(f"s3://volumes/{kind}/{everything[kind][1]}"), DATA)


def test_nothing_in_a_bucket_is_said(anonymous: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", anonymous)
    with pytest.raises(VolumeNotFoundError, match="no volume at s3://volumes/none"):
        read_array_meta("s3://volumes/none.zarr")


@pytest.fixture(scope="module")
def private(everything: dict[str, tuple[Path, str]]) -> Iterator[str]:
    """moto's server, which refuses anonymous reads of a private bucket."""
    pytest.importorskip("moto")
    import boto3
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="private")
        for kind, (root, _) in everything.items():
            for key, content in files_below(root):
                client.put_object(Bucket="private", Key=f"{kind}/{key}", Body=content)
    yield endpoint
    server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_private_bucket_is_read_with_credentials(
    private: str, everything: dict[str, tuple[Path, str]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", private)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    np.testing.assert_array_equal(read_all(f"s3://private/{kind}/{everything[kind][1]}"), DATA)


def test_private_bucket_without_credentials_is_refused_at_once(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", private)
    done = threading.Event()
    timer = threading.Timer(20, done.set)
    timer.start()
    with pytest.raises(AccessError, match="403"):
        read_array_meta("s3://private/zarr2/a b#c%d.zarr")
    timer.cancel()
    assert not done.is_set()


@pytest.mark.parametrize("kind", KINDS)
def test_gs_is_read_from_a_stand_in(
    everything: dict[str, tuple[Path, str]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in answers plain HTTP as public buckets do; Google's own servers and logins are not tested."""
    root, name = everything[kind]
    server = FolderServer(root, prefix="/bucket")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.endpoint)
    np.testing.assert_array_equal(read_all(f"gs://bucket/{name}"), DATA)
    server.close()


def test_useless_credentials_do_not_close_a_public_bucket(
    anonymous: str, everything: dict[str, tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", anonymous)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    np.testing.assert_array_equal(read_all(f"s3://volumes/zarr2/{everything['zarr2'][1]}"), DATA)
