"""Older command lines: what they became, and the one line that says so."""

from __future__ import annotations

import pytest

from chunkloom.cli import commands
from chunkloom.cli.older import newer


@pytest.mark.parametrize(
    ("older", "now"),
    [
        ("yaml c.yaml", "yaml c.yaml"),
        ("yaml c.yaml --validate-only", "yaml c.yaml --validate-only"),
        ("--log-level INFO yaml c.yaml", "yaml c.yaml --log-level info"),
        ("--log-level=DEBUG models", "models"),
        ("serve --model {} -d d -p 80", "serve --model {} -d d -p 80"),
        ("server --model {} -d d", "serve --model {} -d d"),
        ("infer script -s m.py -d d -q gpu -P lab", "infer script -s m.py -d d"),
        ("infer script -s m.py -d d --queue=gpu", "infer script -s m.py -d d"),
        ("script --script-path m.py --data-path d", "infer script --script-path m.py --data-path d"),
        ("run -m fly -d d -c checkpoint_path=a=b -c scale=s1", "infer fly -d d --checkpoint-path a=b --scale s1"),
        ("view -d d -P lab", "view -d d"),
        ("list-models", "models"),
        ("register f.py --force", "plugins register f.py --force"),
        ("unregister f", "plugins unregister f"),
        ("plugins list", "plugins list"),
        ("doctor --core-only", "doctor --core-only"),
        ("", ""),
        ("--help", "--help"),
    ],
)
def test_an_older_command_line_is_a_newer_one(older, now):
    words = newer(older.split())
    assert words == now.split()
    assert not words or words[0].startswith("-") or words[0] in commands.commands


@pytest.mark.parametrize("older", ["run -d d", "run -m fly -c scale", "blockwise c.yaml", "dashboard"])
def test_one_that_cannot_be_is_refused(older):
    if older.split()[0] in commands.commands:
        pytest.skip("there is such a command")
    with pytest.raises(ValueError):
        newer(older.split())


def test_the_notice_is_one_line_on_stderr(capsys):
    from chunkloom.cli import older

    with pytest.raises(SystemExit) as ended:
        older.main(["list-models", "onnx"])
    told = capsys.readouterr()
    assert (ended.value.code, told.out.startswith("onnx: ")) == (0, True)
    assert told.err == "cellmap_flow: this is chunkloom now; the command is `chunkloom models`\n"


def test_bad_configuration_ends_with_1(capsys):
    from chunkloom.cli import older

    with pytest.raises(SystemExit) as ended:
        older.main(["list-models", "onyx"])
    assert ended.value.code == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_console_scripts_are_there():
    import tomllib
    from importlib import metadata
    from pathlib import Path

    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert declared == {
        "chunkloom": "chunkloom.cli:main",
        "cellmap_flow": "chunkloom.cli.older:main",
        "cellmap_flow_yaml": "chunkloom.cli.older:yaml_main",
        "cellmap_flow_view": "chunkloom.cli.older:view_main",
        "cellmap_flow_server": "chunkloom.cli.older:server_main",
    }
    for name, value in declared.items():
        assert callable(metadata.EntryPoint(name, value, "console_scripts").load())
