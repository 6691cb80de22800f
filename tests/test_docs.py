"""What the documentation and the README show works: Python blocks run, `chunkloom` commands exist with their options.

The Python blocks of a page run one after the other, in an interpreter of their own and a folder with a small
`cell.zarr/em`; functions called `test_…` in them are called. A block after the line ``<!-- not run: why -->`` is left
out. The address http://127.0.0.1:8000 stands for a server of that volume.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pytest

from chunkloom import open_volume
from chunkloom.cli import commands
from chunkloom.errors import ChunkloomError

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
RUN_ELSEWHERE = {"docs/guide/networks.md"}  # by tests/network/test_guide.py, which fills in what the page leaves open
ADDRESS = "http://127.0.0.1:8000"
SHELL = {"", "sh", "bash", "console"}


@dataclass(frozen=True)
class Block:
    """A fenced block: `line` is the number of its first line of text, from 1."""

    language: str
    line: int
    text: str
    runs: bool


def blocks_of(page: str) -> list[Block]:
    found: list[Block] = []
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\w*)(?: .*)?", lines[number])
        number += 1
        if fence is None:
            continue
        begin = number
        while lines[number] != "```":
            number += 1
        before = next((line for line in reversed(lines[: begin - 1]) if line), "")
        runs = re.fullmatch(r"<!-- not run: .+ -->", before) is None
        found.append(Block(fence[1], begin + 1, "\n".join(lines[begin:number]), runs))
        number += 1
    return found


def has_python(page: str) -> bool:
    return any(block.language == "python" and block.runs for block in blocks_of(page))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two levels of made-up EM at cell.zarr/em, of 10 and 20 nm."""
    import zarr

    made = tmp_path_factory.mktemp("docs")
    volume = open_volume("synthetic://em?shape=64,64,64&levels=2")
    group = zarr.open_group(str(made / "cell.zarr" / "em"), mode="w", zarr_format=2)
    datasets = []
    for i, level in enumerate(volume.levels):
        array = group.create_array(f"s{i}", shape=level.shape, chunks=(32, 32, 32), dtype=level.dtype)
        array[:] = volume.read(level=i)
        centre = [v / 2 for v in level.voxel_size_nm]
        transforms = [
            {"type": "scale", "scale": list(level.voxel_size_nm)},
            {"type": "translation", "translation": centre},
        ]
        datasets.append({"path": f"s{i}", "coordinateTransformations": transforms})
    axes = [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "zyx"]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    assert np.array_equal(open_volume(made / "cell.zarr" / "em").read(), volume.read())
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where `cell.zarr/em` is served, with the address as `http://127.0.0.1:PORT`."""
    ready = folder / "ready.json"
    words = [sys.executable, "-m", "chunkloom", "serve", "cell.zarr/em", "--ready-file", str(ready)]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            if ready.exists():
                break
            assert server.poll() is None, "the server ended"
            time.sleep(0.1)
        yield json.loads(ready.read_text())["url"].rstrip("/")
    finally:
        server.terminate()
        server.wait(20)


def program(page: str, address: str) -> str:
    """The page's Python as one file in which every line has the number it has on the page."""
    lines: list[str] = []
    for block in blocks_of(page):
        if block.language == "python" and block.runs:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    calls = "for _name, _test in list(globals().items()):\n    if _name.startswith('test_'):\n        _test()\n"
    return "\n".join(lines).replace(ADDRESS, address) + "\n" + calls


@pytest.mark.parametrize("page", [page for page in PAGES if has_python(page) and page not in RUN_ELSEWHERE])
def test_the_python_of_a_page_runs(page: str, folder: Path, address: str, tmp_path: Path) -> None:
    shutil.copytree(folder / "cell.zarr", tmp_path / "cell.zarr")
    script = tmp_path / Path(page).with_suffix(".py").name
    script.write_text(program(page, address), encoding="utf-8")
    ran = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, f"{page} (line numbers are the page's):\n{ran.stderr}"


def command_lines(page: str) -> Iterator[tuple[int, list[str]]]:
    """The line and the words of every chunkloom command in the shell blocks of a page."""
    for block in blocks_of(page):
        if block.language not in SHELL:
            continue
        joined = block.text.replace("\\\n", " ")
        for offset, line in enumerate(joined.splitlines()):
            if not re.search(r"\bchunkloom |\./run ", line):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words[:2] == ["./run", "demo"] or words[:2] == ["./run", "chunkloom"]:
                words = ["chunkloom", *words[1 if words[1] == "demo" else 2 :]]
            if words[:1] == ["chunkloom"]:
                yield block.line + offset, [word for word in words[1:] if word != "…"]


@pytest.mark.parametrize("page", [page for page in PAGES if any(command_lines(page))])
def test_the_commands_of_a_page_exist_with_their_options(page: str) -> None:
    refused = []
    for line, words in command_lines(page):
        try:
            parse(commands, words)
        except (click.ClickException, ChunkloomError) as error:
            message = error.format_message() if isinstance(error, click.ClickException) else str(error)
            refused.append(f"{page}, line {line}: chunkloom {' '.join(words)}: {message}")
    assert not refused, "\n".join(refused)


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse a command line as the command itself would, and run nothing."""
    context = command.make_context(command.name or "chunkloom", list(words), parent=parent)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert inner is not None
        parse(inner, rest, context)


@pytest.mark.parametrize("words", [["serve", "a", "--nonsense"], ["nonsense"], ["infer", "onyx"], ["inspect"]])
def test_a_command_that_does_not_exist_is_noticed(words: list[str]) -> None:
    with pytest.raises((click.ClickException, ChunkloomError)):
        parse(commands, words)


def test_few_blocks_are_left_out() -> None:
    left_out = [f"{page}:{block.line}" for page in PAGES for block in blocks_of(page) if not block.runs]
    assert len(left_out) <= 5, left_out
