from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest


@pytest.fixture
def raw(tmp_path):
    import zarr

    path = tmp_path / "cell.zarr"
    array = zarr.create_array(path / "em", shape=(20, 21, 22), chunks=(10, 10, 10), dtype="uint8", zarr_format=2)
    array[:] = np.arange(20 * 21 * 22).reshape(20, 21, 22) % 251
    return path / "em"


def test_a_volume_is_served_and_the_ready_file_says_where(started, raw):
    import tensorstore as ts

    process, ready = started("serve", raw)
    (volume,) = ready["volumes"]
    assert ready["pid"] == process.pid
    assert (volume["name"], volume["shape"], volume["dtype"]) == ("em", [20, 21, 22], "uint8")
    assert set(volume["urls"]) == {"zarr2", "zarr3", "n5", "precomputed"}
    read = ts.open({"driver": "zarr3", "kvstore": volume["urls"]["zarr3"] + "/s0/"}).result().read().result()
    assert np.array_equal(read.ravel(), np.arange(20 * 21 * 22) % 251)


def test_ops_are_applied_in_order(started, raw):
    import tensorstore as ts

    _, ready = started("serve", raw, "--op", "invert", "--op", "threshold(low=200)", "--raw")
    assert [volume["name"] for volume in ready["volumes"]] == ["raw", "em"]
    url = ready["volumes"][1]["urls"]["zarr2"]
    read = ts.open({"driver": "zarr", "kvstore": url + "/s0/"}).result().read().result()
    assert np.array_equal(read.ravel(), 255 - np.arange(20 * 21 * 22) % 251 >= 200)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(started, raw, tmp_path, number):
    process, ready = started("serve", raw)
    process.send_signal(number)
    assert process.wait(15) == 128 + number
    assert not (tmp_path / "ready-0.json").exists()
    with pytest.raises(OSError):
        urllib.request.urlopen(ready["url"], timeout=5)


def test_the_ready_line_on_stdout_is_all_of_stdout(raw):
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkloom", "serve", "-d", str(raw), "--ready-file", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert json.loads(process.stdout.readline())["volumes"][0]["name"] == "em"
    finally:
        process.terminate()
        rest, _ = process.communicate(timeout=15)
    assert rest == ""


PRINTS = """
import threading, time
import torch

threading.Thread(target=time.sleep, args=(1000,)).start()  # a script's own, that nobody ends


class Prints(torch.nn.Module):
    def forward(self, x):
        print("looking at", x.shape, flush=True)
        return x


model = Prints()
input_voxel_size = output_voxel_size = (1, 1, 1)
input_size = output_size = (10, 10, 10)
output_channels = 1
"""


def test_what_a_model_prints_stays_off_stdout_and_its_threads_do_not_keep_the_process(raw, tmp_path):
    pytest.importorskip("torch", reason="needs the torch extra")
    (tmp_path / "prints.py").write_text(PRINTS)
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkloom", "serve", raw, "--model", tmp_path / "prints.py", "--ready-file", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ready = json.loads(process.stdout.readline())
        url = next(v for v in ready["volumes"] if v["name"] == "prints")["urls"]["zarr2"]
        assert urllib.request.urlopen(f"{url}/s0/0/0/0/0", timeout=60).status == 200
    finally:
        process.terminate()
        rest, errors = process.communicate(timeout=30)
    assert rest == ""
    assert errors.count("looking at") >= 2
    assert process.returncode == 128 + signal.SIGTERM


def test_a_second_signal_does_not_break_the_end(started, raw, tmp_path):
    process, _ = started("serve", raw)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
    _, errors = process.communicate(timeout=15)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert "Traceback" not in errors
    assert not (tmp_path / "ready-0.json").exists()


def test_a_ready_file_of_another_server_stays(started, raw, tmp_path):
    first, _ = started("serve", raw)
    other = {"url": "http://127.0.0.1:1", "pid": 1}
    (tmp_path / "ready-0.json").write_text(json.dumps(other))
    first.send_signal(signal.SIGTERM)
    assert first.wait(15) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "ready-0.json").read_text()) == other


def test_help_and_import_load_nothing_slow():
    code = (
        "import sys, chunkloom, chunkloom.cli\n"
        "slow = {'torch', 'onnxruntime', 'fastapi', 'neuroglancer', 'tensorstore', 'numpy', 'scipy', 'uvicorn'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_names_every_command(chunkloom):
    done = chunkloom("--help")
    assert done.returncode == 0
    for command in ("serve", "infer", "inspect", "demo"):
        assert command in done.stdout
