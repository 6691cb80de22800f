"""`chunkloom doctor` and `chunkloom plugins`: a line each."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "chunkloom", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_a_line_each(own_home):
    (own_home / ".chunkloom" / "plugins").mkdir(parents=True)
    (own_home / ".chunkloom" / "plugins" / "bad.py").write_text("import nowhere_at_all")
    done = run("doctor", PATH=os.path.dirname(sys.executable), BROWSER="")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith(("ok ", "no ")) for line in lines)
    for what in (
        "Python",
        "chunkloom",
        "packages",
        "home",
        "onnxruntime",
        "LSF",
        "Slurm",
        "model kinds",
        "Hub",
        "browser",
    ):
        assert any(line.split(maxsplit=1)[1].startswith(what) for line in lines), what
    assert any(line.startswith("no") and "bad" in line and "nowhere_at_all" in line for line in lines)


def test_the_core_alone():
    lines = run("doctor", "--core-only").stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["Python", "chunkloom", "packages", "home"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs file rights")
def test_a_home_that_cannot_be_written_fails_the_core(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = run("doctor", "--core-only", CHUNKLOOM_HOME=str(file / "home"))
    assert done.returncode == 1
    assert any(line.startswith("FAILED  home") for line in done.stdout.splitlines())


def test_a_package_that_cannot_be_imported_fails_the_core(tmp_path):
    (tmp_path / "tifffile.py").write_text("raise ImportError('no such library')")
    done = run("doctor", "--core-only", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "tifffile" in line
    assert "no such library" in line


def test_a_plug_in_from_registering_to_removing(tmp_path, own_home):
    source = tmp_path / "mine.py"
    source.write_text(
        "from chunkloom import Op\n\n\nclass Mine(Op):\n    '''Mine.'''\n\n    name = 'mine_alone'\nprint('loud')\n"
    )
    assert "no plug-ins" in run("plugins", "list", HOME=str(own_home)).stdout
    done = run("plugins", "register", source)
    assert (done.returncode, "mine.py" in done.stdout) == (0, True)
    listed = run("ops")
    assert "mine_alone" in listed.stdout
    assert "loud" not in listed.stdout  # stdout is for the command's own
    assert run("plugins", "register", source).returncode == 2
    assert run("plugins", "register", source, "--force").returncode == 0
    assert run("plugins", "unregister", "mine").returncode == 0
    assert "mine_alone" not in run("ops").stdout


def test_a_plug_in_kind_of_model_has_a_subcommand(own_home):
    folder = own_home / ".chunkloom" / "plugins"
    folder.mkdir(parents=True)
    (folder / "kind.py").write_text(
        "from chunkloom.models.kinds import ModelConfig\n\n\n"
        "class MineModelConfig(ModelConfig):\n    '''A kind of mine.'''\n\n    cli_name = 'mine'\n\n"
        "    def __init__(self, weights: str, name: str = 'x') -> None:\n        pass\n\n"
        "    def load(self):\n        raise NotImplementedError\n"
    )
    assert "--weights" in run("infer", "mine", "--help").stdout
    assert "mine: A kind of mine." in run("models").stdout
