"""The kernels and the chain are imported by every server and command: nothing slow may come with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ["scipy", "skimage", "edt", "mwatershed", "tensorstore", "zarr", "torch", "onnxruntime", "pydantic", "asyncio"]

MODULES = """
import pkgutil, importlib, sys, {package}
for found in pkgutil.walk_packages({package}.__path__, "{package}."):
    importlib.import_module(found.name)
print(*[name for name in {slow!r} if name in sys.modules])
"""


@pytest.mark.parametrize("package", ["chunkloom.kernels", "chunkloom.chain"])
def test_nothing_slow_is_imported_with(package: str) -> None:
    script = MODULES.format(package=package, slow=SLOW)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
