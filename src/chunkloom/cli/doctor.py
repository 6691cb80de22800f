"""`chunkloom doctor`: what of this machine chunkloom can use, a line each."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import click

State = Literal["ok", "no", "FAILED"]

# Extras for developers and tests say nothing of what a user can do.
_NOT_FOR_USERS = ("test", "docs", "dev", "train")
_SCHEDULERS = {"LSF": ("bsub", "bjobs"), "Slurm": ("sbatch", "squeue")}
_BROWSERS = ("chromium", "google-chrome", "chrome", "firefox", "safari", "microsoft-edge")


@dataclass(frozen=True)
class Finding:
    """One line: "ok", "no" (something optional is not there), or "FAILED" (chunkloom cannot work)."""

    state: State
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.state:<6}  {self.what:<18}  {self.detail}".rstrip()


@click.command()
@click.option("--core-only", is_flag=True, help="Only what chunkloom cannot do without.")
def doctor(core_only: bool) -> int:
    """Say what of this machine chunkloom can use: a line each. Ends with 1 where it cannot work at all."""
    failed = False
    for look in CORE if core_only else (*CORE, *OPTIONAL):
        for finding in _found(look):
            failed = failed or finding.state == "FAILED"
            click.echo(str(finding))
    return 1 if failed else 0


def _found(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except Exception as error:
        # A broken package fails in ways of its own; the other lines must still come.
        state: State = "FAILED" if look in CORE else "no"
        yield Finding(state, look.__name__, f"{type(error).__name__}: {' '.join(str(error).split())}")


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = sys.version_info >= (3, 11)
    yield Finding(
        "ok" if fits else "FAILED", "Python", f"{version}, {sys.executable}" + ("" if fits else ": 3.11 is needed")
    )
    from chunkloom import __version__

    yield Finding("ok", "chunkloom", __version__)


def packages() -> Iterator[Finding]:
    """What chunkloom is installed with."""
    import importlib

    missing = []
    for module in ("click", "h5py", "numcodecs", "numpy", "scipy", "tensorstore", "tifffile", "uvicorn", "yaml"):
        try:
            importlib.import_module(module)
        except Exception as error:
            missing.append(f"{module} ({type(error).__name__}: {' '.join(str(error).split())})")
    if missing:
        yield Finding("FAILED", "packages", f"{', '.join(missing)}: pip install --force-reinstall chunkloom")
    else:
        yield Finding("ok", "packages", "all that chunkloom needs can be imported")


def home() -> Iterator[Finding]:
    """Where chunkloom keeps its own files."""
    from chunkloom.settings import home as own

    folder = own()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        yield Finding("ok", "home", f"{folder}" + ("" if folder.exists() else " (made when it is first needed)"))
    else:
        yield Finding("FAILED", "home", f"{folder} cannot be written: set CHUNKLOOM_HOME to a folder that can")


def extras() -> Iterator[Finding]:
    """The optional packages, by extra."""
    for extra, needed in sorted(extra_packages().items()):
        missing = [name for name in needed if not _installed(name)]
        if missing:
            yield Finding("no", f"extra {extra}", f"misses {', '.join(missing)}: pip install 'chunkloom[{extra}]'")
        else:
            yield Finding("ok", f"extra {extra}", ", ".join(needed))


def extra_packages() -> dict[str, list[str]]:
    """Extra to the packages it adds, from what the installed chunkloom declares."""
    from importlib import metadata

    found: dict[str, list[str]] = {}
    try:
        requires = metadata.requires("chunkloom") or []
    except metadata.PackageNotFoundError:
        return {}
    for line in requires:
        match = re.match(r"""\s*([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""", line)
        if match and match[2] not in _NOT_FOR_USERS and match[1].lower() != "chunkloom":
            found.setdefault(match[2], []).append(match[1])
    return found


def _installed(package: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def device() -> Iterator[Finding]:
    """What models run on."""
    import onnxruntime

    names = [name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers()]
    yield Finding("ok", "onnxruntime", f"{onnxruntime.__version__}, runs on {', '.join(names)}")
    if not _installed("torch"):
        return
    import torch

    if torch.cuda.is_available():
        where = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    elif torch.backends.mps.is_available():
        where = "Apple GPU"
    else:
        where = f"CPU only ({torch.get_num_threads()} threads)"
    yield Finding("ok", "torch", f"{torch.__version__}, {where}")


def schedulers() -> Iterator[Finding]:
    """What jobs can be sent to."""
    for name, commands in _SCHEDULERS.items():
        missing = [command for command in commands if shutil.which(command) is None]
        if missing:
            yield Finding("no", name, f"no {', '.join(missing)} on the PATH")
        else:
            yield Finding("ok", name, ", ".join(str(shutil.which(command)) for command in commands))


def models() -> Iterator[Finding]:
    """Where models come from."""
    from chunkloom.models.modeljson import bundled_models
    from chunkloom.models.registry import model_types

    yield Finding("ok", "model kinds", ", ".join(model_types()))
    bundled = bundled_models()
    yield Finding("ok" if bundled else "no", "bundled models", ", ".join(bundled) or "none in this installation")
    hub = os.environ.get("HF_ENDPOINT", "the public one")
    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    if _installed("huggingface_hub"):
        yield Finding("ok", "Hub", f"{hub}{', offline: only what is in its cache' if offline else ''}")
    else:
        yield Finding("no", "Hub", "huggingface_hub is not installed")


def plug_ins() -> Iterator[Finding]:
    """What was added."""
    from chunkloom.models.older_imports import older_imports
    from chunkloom.plugins import load_plugins

    for plugin in load_plugins(older_imports):
        state: State = "ok" if plugin.error is None else "no"
        yield Finding(
            state, "plug-in", f"{plugin.name} ({plugin.origin})" + (f": {plugin.error}" if plugin.error else "")
        )


def browser() -> Iterator[Finding]:
    """What links open in."""
    import webbrowser

    try:
        yield Finding("ok", "browser", str(getattr(webbrowser.get(), "name", "the system's")))
        return
    except webbrowser.Error:
        pass
    there = next((name for name in _BROWSERS if shutil.which(name)), None)
    if there:
        yield Finding("ok", "browser", there)
    else:
        yield Finding("no", "browser", "none found here: open the printed links in one elsewhere")


CORE = (python, packages, home)
OPTIONAL = (extras, device, schedulers, models, plug_ins, browser)
