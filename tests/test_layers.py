"""Importing a layer costs what the layer is: no framework, no viewer, no web server comes along."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "onnxruntime", "tensorflow", "fastapi", "neuroglancer", "huggingface_hub", "peft")
LAYERS = (
    "geometry",
    "io",
    "network",
    "kernels",
    "chain",
    "engine",
    "models",
    "inference",
    "jobs",
    "serving",
    "viewer",
    "cli",
)

CODE = """
import importlib, pkgutil, sys
package = importlib.import_module("chunkloom." + sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if ".rest" not in found.name and "bundled" not in found.name:
        importlib.import_module(found.name)
print(",".join(sorted(set(sys.argv[2].split(",")) & set(sys.modules))))
"""


@pytest.mark.parametrize("layer", LAYERS)
def test_every_module_of_a_layer_imports_without_heavy_libraries(layer):
    done = subprocess.run(
        [sys.executable, "-c", CODE, layer, ",".join(HEAVY)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = set(filter(None, done.stdout.strip().split(",")))
    if layer == "serving":
        found -= {"fastapi"}  # its REST half is imported at the first /api call, tested in tests/serving
    assert found == set()


def test_importing_chunkloom_imports_nothing():
    code = "import sys, chunkloom; print(sorted({'numpy', 'tensorstore', 'scipy', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
