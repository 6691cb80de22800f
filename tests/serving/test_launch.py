"""Command lines of model servers, as a shell and a scheduler read them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chunkloom.errors import ParameterError
from chunkloom.models.kinds import OnnxModelConfig
from chunkloom.serving.launch import (
    server_argv,
    server_argv_for,
    server_command,
    server_environment,
    shell_line,
)

MODEL = OnnxModelConfig("mo del.onnx", scale="s1")
ENTRY = '{"type":"onnx","path":"mo del.onnx","scale":"s1"}'


def test_the_command_line_of_a_model():
    assert server_argv(MODEL, "/data/cell.zarr/em") == [
        *[sys.executable, "-P", "-m", "chunkloom", "serve"],
        *["--model", ENTRY, "-d", "/data/cell.zarr/em"],
    ]


@pytest.mark.parametrize("name", ["CHUNKLOOM_SERVER_COMMAND", "CELLMAP_FLOW_SERVER_COMMAND"])
def test_the_command_comes_from_the_environment(monkeypatch, name):
    monkeypatch.setenv(name, "pixi run 'chunk loom' serve")
    assert server_argv(MODEL, "d")[:4] == ["pixi", "run", "chunk loom", "serve"]


@pytest.mark.parametrize("value", ["'", " "])
def test_a_command_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("CHUNKLOOM_SERVER_COMMAND", value)
    with pytest.raises(ParameterError, match="SERVER_COMMAND"):
        server_argv(MODEL, "d")


def test_an_entry_is_launched_without_making_the_model():
    argv = server_argv_for("huggingface", {"repo": "lab/mito", "revision": None}, "d", resample=False)
    assert argv[-5:] == ["--model", '{"type":"huggingface","repo":"lab/mito"}', "-d", "d", "--no-resample"]


NASTY = [
    'a"b',
    "a b",
    "$HOME",
    "`id`",
    "$(id)",
    "a\\b",
    "a\\",
    "!x",
    "*",
    "~",
    "a;b",
    "a|b",
    "",
    "é",
    "#x",
    '{"a":"\\""}',
]


@pytest.mark.parametrize("word", NASTY)
def test_a_line_gives_the_shell_the_words_again(word):
    printed = subprocess.run(
        ["bash", "-c", shell_line(["printf", "%s\\n%s", word, "end"])], capture_output=True, check=True, text=True
    )
    assert printed.stdout == f"{word}\nend"


@pytest.mark.parametrize("word", NASTY)
def test_a_line_survives_single_quotes_around_it(word):
    """As LSF runs it: the line between single quotes, in a shell of its own."""
    line = shell_line(["printf", "%s", word])
    printed = subprocess.run(["bash", "-c", f"bash -c '{line}'"], capture_output=True, check=True, text=True)
    assert printed.stdout == word


@pytest.mark.parametrize("word", ["it's", "a\nb", "a\rb", "a\0b"])
def test_a_word_that_no_quoting_gets_through_is_refused(word):
    with pytest.raises(ParameterError, match="cannot be given to a job"):
        shell_line([word])


def test_the_line_of_a_model(monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_SERVER_COMMAND", "cellmap_flow serve")
    escaped = ENTRY.replace('"', '\\"')
    assert server_command(MODEL, "/data/em") == f'cellmap_flow serve --model "{escaped}" -d /data/em'
    assert json.loads(ENTRY)["type"] == "onnx"


def test_a_server_is_told_who_started_it():
    assert server_environment("http://host:5000") == {"CHUNKLOOM_DASHBOARD_URL": "http://host:5000"}
    assert server_environment() == {}
