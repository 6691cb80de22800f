"""What importing the layer costs."""

from __future__ import annotations

import subprocess
import sys


def test_import_brings_in_no_slow_library() -> None:
    slow = [
        "tensorstore",
        "h5py",
        "tifffile",
        "numcodecs",
        "zarr",
        "scipy",
        "torch",
        "onnxruntime",
        "fastapi",
        "neuroglancer",
    ]
    code = f"import sys, chunkloom.io; print([name for name in {slow!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
