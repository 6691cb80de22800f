"""Plug-ins: ops, sources, kinds of model and chain steps that come from elsewhere.

Installed packages offer them as entry points; a single file in the plug-in folder is one too. A class exists because it
was imported: nothing is registered. Commands, servers, workers and jobs call `load_plugins`; importing chunkloom never
does. One that fails is a warning, never the end of what a person was about to do.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import logging
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from chunkloom import settings
from chunkloom.errors import ConflictError, ParameterError, nearest

log = logging.getLogger(__name__)

GROUPS = ("chunkloom.ops", "chunkloom.sources", "chunkloom.models", "chunkloom.steps")
PACKAGE = "chunkloom_plugins"
MOST_BYTES = 1 << 20

_REFUSED_IMPORTS = ("os", "subprocess", "sys")
_REFUSED_CALLS = ("eval", "exec", "compile", "__import__")


@dataclass(frozen=True)
class Plugin:
    """One plug-in: an entry point or a file, and why it could not be loaded, if it could not."""

    name: str
    origin: str
    error: str | None = None


_loaded: tuple[Plugin, ...] | None = None
_lock = threading.RLock()
# Classes are found among the subclasses that are alive: what made them must stay so.
_kept: list[Any] = []


def plugin_folder() -> Path:
    """Where plug-in files of the user lie. Not created here."""
    return settings.home() / "plugins"


def plugin_files() -> list[Path]:
    """The plug-in files in the order they are run: ours, and the older home's where ours has none of that name."""
    found: dict[str, Path] = {}
    for folder in (Path.home() / ".cellmap_flow" / "plugins", plugin_folder()):
        with contextlib.suppress(OSError):
            found.update({path.name: path for path in folder.glob("*.py") if path.is_file()})
    return [found[name] for name in sorted(found)]


def load_plugins(around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext) -> tuple[Plugin, ...]:
    """Load every plug-in, once per process; later calls give what the first found.

    Parameters
    ----------
    around
        Makes a context in which each file is run: for files written for older import paths.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = ()  # a plug-in that asks for plug-ins finds none
            _loaded = (*_entry_points(), *(_run(path, around) for path in plugin_files()))
            for plugin in _loaded:
                if plugin.error is not None:
                    log.warning("plug-in %s (%s) is left out: %s", plugin.name, plugin.origin, plugin.error)
        return _loaded


def _entry_points() -> list[Plugin]:
    from importlib import metadata

    found = []
    points = metadata.entry_points()  # once: it looks through every installed package
    for group in GROUPS:
        for point in points.select(group=group):
            package = getattr(getattr(point, "dist", None), "name", None) or "?"
            try:
                _kept.append(point.load())
                error = None
            except Exception as failure:
                # Whatever the package's own code raises.
                error = _reason(failure)
            found.append(Plugin(point.name, f"{group}, {package}", error))
    return found


def _run(path: Path, around: Callable[[], AbstractContextManager[Any]]) -> Plugin:
    name = path.stem
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise PermissionError("everybody may write to the file: chmod o-w it first")
        module_name = f"{PACKAGE}.{re.sub(r'[^0-9A-Za-z_]', '_', name)}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ImportError("it cannot be imported")
        sys.modules.setdefault(PACKAGE, ModuleType(PACKAGE))
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            with around():
                spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(module_name, None)
            raise
        _kept.append(module)
        return Plugin(name, str(path))
    except (Exception, SystemExit) as failure:
        # A file that ends the process must not end ours.
        return Plugin(name, str(path), _reason(failure))


def _reason(failure: BaseException) -> str:
    text = " ".join(str(failure).split())
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def analyze_source(source: str | bytes, name: str = "<source>") -> list[str]:
    """What in a Python file reaches beyond computing: imports of os, subprocess or sys, and eval and its like.

    A look at the surface, so that nobody installs such a file without noticing. Not a sandbox: Python has many other
    ways.

    Raises
    ------
    ParameterError
        It is not Python.
    """
    try:
        tree = ast.parse(source, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ParameterError(f"{name}{line}: is not Python: {getattr(error, 'msg', None) or error}") from error
    return [f"line {getattr(node, 'lineno', 0)}: {problem}" for node in ast.walk(tree) for problem in _problems(node)]


def _problems(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        named = [alias.name for alias in node.names]
        return [f"imports {name}" for name in named if name.partition(".")[0] in _REFUSED_IMPORTS]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return [f"imports from {module}"] if node.level == 0 and module.partition(".")[0] in _REFUSED_IMPORTS else []
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id in _REFUSED_CALLS:
            return [f"calls {called.id}"]
        if (
            isinstance(called, ast.Attribute)
            and called.attr in _REFUSED_CALLS
            and isinstance(called.value, ast.Name)
            and called.value.id in ("builtins", "__builtins__")
        ):
            return [f"calls {called.value.id}.{called.attr}"]
    return []


def register(path: str | os.PathLike[str], *, replace: bool = False) -> Path:
    """Copy a plug-in file into the plug-in folder, after a look at what it does; where it is now.

    Raises
    ------
    ParameterError
        Not a `.py` file, not Python, or one that reaches beyond computing (see `analyze_source`).
    ConflictError
        There is one of that name, and `replace` is not set.
    """
    source = Path(path)
    if source.suffix != ".py" or not source.is_file():
        raise ParameterError(f"{source}: expected a Python file, NAME.py")
    if source.stat().st_size > MOST_BYTES:
        raise ParameterError(f"{source}: larger than {MOST_BYTES} bytes: install it as a package instead")
    problems = analyze_source(source.read_bytes(), str(source))
    if problems:
        raise ParameterError(
            f"{source}: refused, {'; '.join(problems)}. If you trust it, copy it to {plugin_folder()} yourself"
        )
    target = plugin_folder() / source.name
    if target.exists() and not replace:
        raise ConflictError(f"there is a plug-in {source.name} already, {target}: --force replaces it")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.part")
    shutil.copyfile(source, temporary)
    os.replace(temporary, target)
    return target


def unregister(name: str) -> Path:
    """Remove a plug-in file from the plug-in folder, by its file name (with or without `.py`); where it was."""
    called = name if name.endswith(".py") else f"{name}.py"
    there = sorted(path.name for path in plugin_folder().glob("*.py")) if plugin_folder().is_dir() else []
    if called not in there:
        hint = nearest(called, there) if there else f"there is none in {plugin_folder()}"
        raise ParameterError(f"no plug-in {name!r}: {hint}")
    target = plugin_folder() / called
    target.unlink()
    return target
