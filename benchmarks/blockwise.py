"""What a whole-volume run costs beside the model, and how much memory planning takes.

    python benchmarks/blockwise.py

Overhead: blocks of 64^3 in one process, CPU time of the run minus the model's forwards, for each block. Memory: the
peak of a master that goes through 1,000 and through 100,000 planned blocks, all but one finished before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

MASTER = """
import resource, sys
from chunkloom.blockwise import load_task, run
task = load_task(sys.argv[1])
summary = run(task, serial=True)
assert summary.complete, summary
print(summary.blocks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def task_file(folder: Path, shape: tuple[int, int, int], block: int) -> Path:
    """A task over an empty volume, with the test suite's 3 x 3 x 3 model in tiles of `block`."""
    import yaml

    from blockwise_model import VOXEL_NM, box_mean_model

    (folder / "em.zarr").mkdir(parents=True)
    array = {"zarr_format": 2, "shape": shape, "chunks": [64] * 3, "dtype": "|u1", "compressor": None, "fill_value": 0}
    (folder / "em.zarr" / ".zarray").write_text(json.dumps({**array, "order": "C", "filters": None}))
    attributes = {"resolution": VOXEL_NM, "offset": [0, 0, 0]}
    (folder / "em.zarr" / ".zattrs").write_text(json.dumps(attributes))
    model = box_mean_model(folder)
    card = json.loads((model / "model.json").read_text())
    card |= {"input_shape": [block + 2] * 3, "output_shape": [block] * 3}
    (model / "model.json").write_text(json.dumps(card))
    data = {
        "data_path": str(folder / "em.zarr"),
        "output_path": str(folder / "out.zarr"),
        "task_name": "run",
        "workers": 1,
        "models": [{"type": "onnx", "path": str(model)}],
        "output_channels": ["mean"],
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(data))
    return folder / "task.yaml"


def overhead(folder: Path) -> float:
    """Milliseconds a block beside the forward."""
    from chunkloom.blockwise import load_task, run
    from chunkloom.inference.runner import ModelRunner

    spent = [0.0]
    forward = ModelRunner.forward

    def timed(self, *given):
        began = time.process_time()
        try:
            return forward(self, *given)
        finally:
            spent[0] += time.process_time() - began

    ModelRunner.forward = timed
    task = load_task(task_file(folder, (256, 256, 256), 64))
    began = time.process_time()
    summary = run(task, serial=True)
    return (time.process_time() - began - spent[0]) / summary.blocks * 1000


def memory(folder: Path, side: int) -> tuple[int, float]:
    """Blocks, and the master's peak in MB."""
    from chunkloom.blockwise import load_task
    from chunkloom.blockwise.run import precheck

    path = task_file(folder, (side * 8,) * 3, 8)
    prepared = precheck(load_task(path))
    prepared.progress.begin(prepared.identity(), resume=True)
    markers = prepared.progress.of(prepared.task_id(0)).folder
    markers.mkdir()
    for number, index in enumerate(prepared.plan.indices(0)):
        if number:
            (markers / prepared.marker(index)).touch()
    done = subprocess.run([sys.executable, "-c", MASTER, str(path)], capture_output=True, text=True, check=True)
    blocks, kilobytes = done.stdout.split()[-2:]
    return int(blocks), int(kilobytes) / 1024


def main() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"overhead a block of 64^3: {overhead(folder / 'overhead'):.1f} ms (goal: at most 15)")
        few, small = memory(folder / "few", 10)
        many, large = memory(folder / "many", 47)
        print(
            f"master's peak: {small:.0f} MB at {few} blocks, {large:.0f} MB at {many}: {large - small:+.0f} (goal: +50)"
        )


if __name__ == "__main__":
    main()
