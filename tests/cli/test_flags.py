"""The command line as others script it: every command with its options, and what it takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from chunkloom.cli import commands

SNAPSHOT = Path(__file__).with_name("flags.json")


def flags(command: click.Command) -> list[str]:
    """Arguments in capitals, options with all their spellings, in the order of the help."""
    return [
        parameter.human_readable_name.upper() if isinstance(parameter, click.Argument) else " ".join(parameter.opts)
        for parameter in command.params
    ]


def listed(group: click.Group, words: str = "chunkloom") -> dict[str, list[str]]:
    found = {}
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group) and command.commands:
            found.update(listed(command, f"{words} {name}"))
        else:
            found[f"{words} {name}"] = flags(command)
    return found


def test_commands_and_their_options():
    """Changed on purpose? SNAPSHOT=write writes the file anew."""
    found = listed(commands)
    if os.environ.get("SNAPSHOT") == "write":
        SNAPSHOT.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(SNAPSHOT.read_text())


def test_the_options_of_a_kind_of_model():
    """Its parameters first, each with its first letter where that is free; then what all kinds have."""
    kind = commands.commands["infer"].get_command(click.Context(commands), "onnx")
    own, shared = flags(kind)[:3], flags(kind)[3:]
    assert own == ["--path", "-n --name", "-s --scale"]
    assert shared[:3] == ["-d --data --data-path", "--op", "--server-check"]
    served = [flag for flag in flags(commands.commands["serve"]) if flag.startswith(("--host", "-p", "--cache"))]
    assert set(served) <= set(shared)
    assert {"--once", "--no-browser", "--viewer-port"} <= set(shared)
