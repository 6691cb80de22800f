"""What importing the layer costs."""

from __future__ import annotations

import subprocess
import sys


def test_import_brings_in_no_array_library() -> None:
    code = "import sys, chunkloom.geometry; print(sorted({'numpy', 'tensorstore', 'torch'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
