"""What a wheel carries of the pages: every file they name, scripts that parse, elements that scripts look up."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
STATIC = "chunkloom/dashboard/static"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> dict[str, bytes]:
    """The files of the built wheel."""
    if not (REPOSITORY / "pyproject.toml").exists():
        pytest.skip("no source tree to build from")
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", str(folder), str(REPOSITORY)]
    subprocess.run(words, check=True, capture_output=True, timeout=240)
    (made,) = folder.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pages(wheel):
    return {name: body.decode() for name, body in wheel.items() if name.startswith(STATIC) and name.endswith(".html")}


def scripts(wheel):
    return {name: body.decode() for name, body in wheel.items() if name.startswith(STATIC) and name.endswith(".js")}


def test_every_file_that_a_page_names_is_there(wheel):
    assert {PurePosixPath(name).name for name in pages(wheel)} == {"index.html", "builder.html", "closed.html"}
    for page, text in pages(wheel).items():
        for named in re.findall(r'(?:href|src)="(static/[^"]+)"', text):
            assert f"chunkloom/dashboard/{named}" in wheel, (page, named)


def test_every_import_of_a_script_is_there(wheel):
    found = scripts(wheel)
    assert len(found) > 10
    for script, text in found.items():
        folder = PurePosixPath(script).parent
        for named in re.findall(r'(?:from|import)\s*["\'](\.[^"\']+)["\']', text):
            target = str(PurePosixPath(*_normalized(folder / named)))
            assert target in wheel, (script, named)
        bare = re.findall(r'^import[^;]*from\s*["\']([^."\'][^"\']*)["\']', text, re.MULTILINE)
        assert not bare, (script, bare)


def test_every_script_parses(wheel, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    for script, text in scripts(wheel).items():
        file = tmp_path / (PurePosixPath(script).name.removesuffix(".js") + ".mjs")
        file.write_text(text)
        done = subprocess.run([node, "--check", str(file)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (script, done.stderr)


def test_every_element_that_a_script_looks_up_is_on_its_page(wheel):
    html = "".join(pages(wheel).values())
    made = "".join(scripts(wheel).values())
    for script, text in scripts(wheel).items():
        if "/vendor/" in script:
            continue
        for named in re.findall(r'getElementById\("([^"]+)"\)', text):
            assert f'id="{named}"' in html or f"id={named}" in made, (script, named)
        # Text in templates is looked up by its start: tab-input, panel.
        for named in re.findall(r"getElementById\(`([a-z-]+)\$", text):
            assert f"id=${{`{named}" in made, (script, named)


def test_the_licences_of_the_libraries_are_there(wheel):
    licences = wheel[f"{STATIC}/vendor/LICENSES.txt"].decode()
    readme = wheel[f"{STATIC}/vendor/README.md"].decode()
    for name in ("preact", "htm", "js-yaml", "signals"):
        assert name in licences
        assert name in readme


def _normalized(path: PurePosixPath) -> list[str]:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return parts
