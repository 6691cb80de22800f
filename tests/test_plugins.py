"""Plug-ins: files and entry points, loaded by commands and never by an import."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from chunkloom import plugins
from chunkloom.errors import ConflictError, ParameterError

STEP = """
from chunkloom.chain.steps import InputNormalizer


class Halve(InputNormalizer):
    \"\"\"Half of it.\"\"\"

    dtype = "float32"

    def _process(self, data):
        return data / 2
"""

OP = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkloom import Op

if TYPE_CHECKING:
    from collections.abc import Sequence
    from nowhere import Thing


@dataclass(frozen=True)
class PlugIn(Op):
    \"\"\"Adds.\"\"\"

    name = "plug_in"
    by: int = 1
    sizes: Sequence[float] = (1.0,)
    thing: Thing | None = None

    def apply(self, block):
        return block + self.by
"""


@pytest.fixture
def folder(own_home, monkeypatch):
    """The plug-in folder, and nothing loaded yet. What a test loads is gone after it."""
    monkeypatch.setattr(plugins, "_loaded", None)
    monkeypatch.setattr(plugins, "_kept", [])
    monkeypatch.setenv("HOME", str(own_home))
    made = own_home / ".chunkloom" / "plugins"
    made.mkdir(parents=True)
    yield made
    for name in [name for name in sys.modules if name.startswith("chunkloom_plugins")]:
        del sys.modules[name]
    plugins._kept.clear()
    gc.collect()


def test_a_step_in_a_file_is_a_step_of_chains(folder):
    from chunkloom.chain import input_normalizers

    (folder / "halve.py").write_text(STEP)
    (found,) = [p for p in plugins.load_plugins() if p.name == "halve"]
    assert (found.origin, found.error) == (str(folder / "halve.py"), None)
    assert input_normalizers()["Halve"]().process([4]).tolist() == [2]


def test_files_are_loaded_once_in_order(folder, capsys):
    for name in ("b", "a"):
        (folder / f"{name}.py").write_text(f"print('loads {name}')")
    assert plugins.load_plugins() == plugins.load_plugins()
    assert capsys.readouterr().out == "loads a\nloads b\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 +", "SyntaxError"),
        ("import nowhere_at_all", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_one_that_fails_is_a_warning_and_the_others_are_loaded(folder, caplog, source, says):
    (folder / "bad.py").write_text(source)
    (folder / "good.py").write_text("loaded = True")
    found = {p.name: p.error for p in plugins.load_plugins()}
    assert found["good"] is None
    assert says in found["bad"]
    assert "bad" in caplog.text


def test_a_file_that_everybody_may_write_to_is_left_out(folder):
    (folder / "open.py").write_text("raise RuntimeError")
    (folder / "open.py").chmod(0o666)
    (found,) = [p for p in plugins.load_plugins() if p.name == "open"]
    assert "chmod" in found.error


def test_the_older_home_is_read_where_ours_has_no_such_file(folder, own_home):
    older = own_home / ".cellmap_flow" / "plugins"
    older.mkdir(parents=True)
    for name in ("one", "two"):
        (older / f"{name}.py").write_text("")
    (folder / "two.py").write_text("")
    assert plugins.plugin_files() == [older / "one.py", folder / "two.py"]


def test_entry_points_of_every_group_are_loaded(folder, monkeypatch):
    from importlib import metadata

    points = {
        "chunkloom.ops": "collections:OrderedDict",
        "chunkloom.sources": "collections:abc",
        "chunkloom.models": "json",
        "chunkloom.steps": "nowhere_at_all:X",
    }

    def entry_points():
        return metadata.EntryPoints(metadata.EntryPoint(f"my-{group}", points[group], group) for group in points)

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    found = {p.name: p.error for p in plugins.load_plugins()}
    assert list(found) == [f"my-{group}" for group in points]
    assert [error is None for error in found.values()] == [True, True, True, False]


def test_importing_chunkloom_loads_none(folder):
    (folder / "loud.py").write_text("raise SystemExit('loaded')")
    code = (
        "import chunkloom, chunkloom.cli, chunkloom.engine, chunkloom.models.registry, sys;"
        "sys.exit(any(name.startswith('chunkloom_plugins') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_an_op_whose_annotations_are_for_type_checkers_alone_is_offered(folder):
    from chunkloom.engine.op import make_op, parse_op
    from chunkloom.serving import schema

    (folder / "op.py").write_text(OP)
    plugins.load_plugins()
    assert make_op("plug_in", {"by": 3, "sizes": (1, 2)}).by == 3
    assert parse_op("plug_in:by=2").by == 2
    with pytest.raises(ParameterError, match="by"):
        make_op("plug_in", {"by": "x"})
    offered = schema.offered_ops(allow_code=False)
    assert "gaussian" in offered
    described = schema.op_model(offered["plug_in"]).model_json_schema()
    assert described["properties"]["by"]["type"] == "integer"
    assert schema.spec_models(offered).volume.model_json_schema()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import os", "imports os"),
        ("import os.path as p", "imports os.path"),
        ("from os import path", "imports from os"),
        ("from subprocess import run", "imports from subprocess"),
        ("def f():\n    import sys", "line 2: imports sys"),
        ("eval('1')", "calls eval"),
        ("exec('1')", "calls exec"),
        ("compile('1', '', 'eval')", "calls compile"),
        ("__import__('os')", "calls __import__"),
        ("import builtins\nbuiltins.exec('1')", "line 2: calls builtins.exec"),
    ],
)
def test_what_reaches_beyond_computing_is_named(source, problem):
    assert any(problem in found for found in plugins.analyze_source(source))


@pytest.mark.parametrize("source", ["model.eval()", "import numpy, osmium", "from . import os", "ossify = 1", STEP, OP])
def test_what_only_computes_is_not(source):
    assert plugins.analyze_source(source) == []


def test_registering(folder, tmp_path):
    folder.rmdir()
    source = tmp_path / "mine.py"
    source.write_text("a = 1")
    assert plugins.register(source) == folder / "mine.py"
    source.write_text("a = 2")
    with pytest.raises(ConflictError, match="--force"):
        plugins.register(source)
    assert (folder / "mine.py").read_text() == "a = 1"
    plugins.register(source, replace=True)
    assert (folder / "mine.py").read_text() == "a = 2"
    assert [p.name for p in folder.iterdir()] == ["mine.py"]
    assert plugins.unregister("mine") == folder / "mine.py"
    with pytest.raises(ParameterError, match="no plug-in"):
        plugins.unregister("mine")


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", ""), ("none.py", None), ("a.py", "import os"), ("a.py", "1 +"), ("a.py", "\0")]
)
def test_what_cannot_be_registered(folder, tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ParameterError):
        plugins.register(tmp_path / name)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "."])
def test_unregistering_reaches_no_other_folder(folder, name):
    (folder.parent / "secret.py").write_text("")
    (folder / "a.py").write_text("")
    with pytest.raises(ParameterError):
        plugins.unregister(name)
    assert (folder.parent / "secret.py").exists()
