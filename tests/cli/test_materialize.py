from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

DATA = (np.arange(40 * 42 * 44).reshape(40, 42, 44) % 251).astype(np.uint8)
BOX = "3:30,5:40,2:39"
INSIDE = (slice(3, 30), slice(5, 40), slice(2, 39))


@pytest.fixture
def raw(tmp_path):
    from chunkloom import array_volume, materialize

    path = tmp_path / "cell.zarr"
    materialize(array_volume(DATA, chunk=(16, 16, 16), voxel_size_nm=(8, 8, 4), corner_nm=(-4, 0, 10)), path)
    return path


def read(path, level="0"):
    import tensorstore as ts

    return ts.open({"driver": "zarr3", "kvstore": f"file://{path}/{level}/"}).result().read().result()


def test_a_box_is_written_with_plain_lines_where_there_is_no_terminal(chunkloom, raw, tmp_path):
    done = chunkloom("materialize", raw, tmp_path / "crop.zarr", "--box", BOX)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read(tmp_path / "crop.zarr"), DATA[INSIDE])
    assert "100 %  18 of 18 chunks" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout.startswith(f"{tmp_path}/crop.zarr: 27 x 35 x 37, 18 chunks written")


def test_a_region_of_the_world_is_the_voxels_that_touch_it(chunkloom, raw, tmp_path):
    done = chunkloom("materialize", raw, tmp_path / "a", "--roi-nm", "20:100,:,11:30", "--json")
    told = json.loads(done.stdout)
    assert (told["lo"], told["hi"]) == ([3, 0, 0], [13, 42, 5])
    assert np.array_equal(read(tmp_path / "a"), DATA[3:13, :, 0:5])
    assert done.stderr == ""


def test_ops_shards_and_a_pyramid(chunkloom, raw, tmp_path):
    options = ["--op", "threshold:low=100", "--chunk", "8", "--shard", "16", "--pyramid", "1", "--codec", "blosc"]
    done = chunkloom("materialize", raw, tmp_path / "a", "--box", BOX, *options)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read(tmp_path / "a"), DATA[INSIDE] >= 100)
    assert read(tmp_path / "a", "1").shape == (27, 35, 19)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(chunkloom, raw, tmp_path):
    done = chunkloom("materialize", raw, tmp_path / "a", "--box", BOX, "--dry-run")
    assert "18 chunks to compute, 18 to write" in done.stdout
    told = json.loads(chunkloom("materialize", raw, tmp_path / "a", "--box", BOX, "--dry-run", "--json").stdout)
    assert told["arrays"][0]["needed"] == 18
    assert not (tmp_path / "a").exists()


def test_a_bar_is_drawn_on_a_terminal(raw, tmp_path):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "chunkloom", "materialize", str(raw), str(tmp_path / "a")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    process.communicate()
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert b"100%" in shown
    assert "━".encode() in shown


BAD = {
    "no source": (["absent.zarr", "{t}"], "no such path"),
    "box": (["{s}", "{t}", "--box", "1:2,3"], "is not a box: expected three ranges"),
    "box outside": (["{s}", "{t}", "--box", "90:99,0:1,0:1"], "outside the level or empty"),
    "box and roi": (["{s}", "{t}", "--box", BOX, "--roi-nm", BOX], "give one"),
    "roi": (["{s}", "{t}", "--roi-nm", "5:5,0:1,0:1"], "--roi-nm is empty"),
    "format": (["{s}", "{t}", "--format", "tiff"], "'tiff' is not one of"),
    "memory": (["{s}", "{t}", "--memory-limit", "1kB"], "memory_limit is 1000 bytes"),
    "fill": (["{s}", "{t}", "--fill-value", "much"], "expected a number"),
    "level": (["{s}", "{t}", "--level", "7"], "no level 7"),
    "target": (["{s}", "http://127.0.0.1/a"], "nothing is written over http"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_ends_with_one_line_and_2(arguments, message, chunkloom, raw, tmp_path):
    done = chunkloom("materialize", *(a.format(s=raw, t=tmp_path / "a") for a in arguments))
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a").exists()


def test_a_store_that_is_there_is_replaced_only_when_asked(chunkloom, raw, tmp_path):
    assert chunkloom("materialize", raw, tmp_path / "a").returncode == 0
    refused = chunkloom("materialize", raw, tmp_path / "a", "--box", BOX)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert chunkloom("materialize", raw, tmp_path / "a", "--box", BOX, "--overwrite").returncode == 0
    assert np.array_equal(read(tmp_path / "a"), DATA[INSIDE])


def test_a_chunk_that_cannot_be_made_ends_it_with_its_name_and_1(chunkloom, raw, tmp_path):
    (raw / "0/c/1/1/1").write_bytes(b"not zstd")
    done = chunkloom("materialize", raw, tmp_path / "a", "--op", "invert")
    assert done.returncode == 1
    assert "chunk a/0/1.1.1: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "chunkloom_unfinished" in (tmp_path / "a/zarr.json").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_same_command_goes_on(number, chunkloom, raw, tmp_path):
    # So many passes that there is time to stop it.
    slow = ["--op", "median:size=5", "--workers", "1"]
    words = [sys.executable, "-m", "chunkloom", "materialize", str(raw), str(tmp_path / "a"), *slow]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "a").glob("0/c/*/*/*")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert not (tmp_path / "a.unfinished" / "lock").exists()
    assert chunkloom("materialize", raw, tmp_path / "a", *slow).returncode == 0
    assert chunkloom("materialize", raw, tmp_path / "b", *slow, "--name", "a").returncode == 0
    assert np.array_equal(read(tmp_path / "a"), read(tmp_path / "b"))
    assert not (tmp_path / "a.unfinished").exists()


def test_a_volume_of_our_own_server_is_written(chunkloom, started, raw, tmp_path):
    _, ready = started("serve", raw, "--op", "invert")
    url = ready["volumes"][0]["urls"]["zarr3"]
    done = chunkloom("materialize", url, tmp_path / "a", "--box", BOX)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(read(tmp_path / "a"), 255 - DATA[INSIDE])


def test_a_prediction_over_real_em_is_written_as_it_is_served(chunkloom, started, shared, tmp_path):
    import tensorstore as ts

    source = shared / "data" / "fibsem.zarr" / "raw"
    done = chunkloom("materialize", source, tmp_path / "a", "--model", "fibsem-membrane", "--box", "5:40,10:60,20:90")
    assert done.returncode == 0, done.stderr
    _, ready = started("serve", source, "--model", "fibsem-membrane")
    served = next(v for v in ready["volumes"] if v["name"] != "raw")
    array = ts.open({"driver": "zarr3", "kvstore": served["urls"]["zarr3"] + "/s0/"}).result()
    box = (..., slice(5, 40), slice(10, 60), slice(20, 90))
    assert np.array_equal(read(tmp_path / "a"), array[box].read().result())
