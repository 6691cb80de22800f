"""The `cellmap_flow` import paths of older model scripts and plug-ins, while such a file runs.

A finder on the import path answers for them with our own objects and says the newer name once. Nothing of that name is
installed, and outside of `older_imports()` nothing of that name can be imported.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = "cellmap_flow"

_MODELS = ("chunkloom.models.kinds", "chunkloom.models.older_config", "chunkloom.models.geometry")

# Where the names of a module are found today; the first that has one gives it.
PATHS: dict[str, tuple[str, ...]] = {
    "": (),
    "globals": (),
    "image_data_interface": ("chunkloom.inference.imagedata",),
    "io": (),
    "io.image_data_interface": ("chunkloom.inference.imagedata",),
    "inferencer": ("chunkloom.inference.inferencer", "chunkloom.inference.runner"),
    "inference": (),
    "inference.inferencer": ("chunkloom.inference.inferencer", "chunkloom.inference.runner"),
    "inference.runner": ("chunkloom.inference.runner",),
    "models": (),
    "models.models_config": _MODELS,
    "models.model_registry": ("chunkloom.models.registry", "chunkloom.models.catalog"),
    "models.hf_catalog": ("chunkloom.models.catalog",),
    "models.model_merger": ("chunkloom.models.merger",),
    "norm": (),
    "norm.input_normalize": ("chunkloom.chain.normalizers", "chunkloom.chain.steps"),
    "post": (),
    "post.postprocessors": ("chunkloom.chain.postprocessors", "chunkloom.chain.steps"),
    "jobs": (),
    "jobs.launch": ("chunkloom.jobs.launch",),
    "utils": (),
    "utils.bsub_utils": ("chunkloom.jobs.launch",),
    "utils.serialize_config": _MODELS,
}

_lock = threading.RLock()
_inside = 0
_said: set[str] = set()
# The settings older code kept in `cellmap_flow.globals.g`. Ours are arguments; what a script puts here stays its own.
_settings = SimpleNamespace(input_norms=[], postprocess=[], models_config=[], servers=[])


@contextlib.contextmanager
def older_imports() -> Iterator[None]:
    """While inside, `cellmap_flow` and what was public below it can be imported. May be nested, and from threads."""
    global _inside
    with _lock:
        if not _inside:
            # First, so that a file means the same whether or not the older package is installed too.
            sys.meta_path.insert(0, _FINDER)
            _FINDER.hidden = _taken()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.meta_path.remove(_FINDER)
                _taken()
                sys.modules.update(_FINDER.hidden)
                _FINDER.hidden = {}


def _taken() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == ROOT or name.startswith(ROOT + ".")]
    return {name: sys.modules.pop(name) for name in names}


class _Finder:
    hidden: dict[str, ModuleType]

    def __init__(self) -> None:
        self.hidden = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != ROOT and not fullname.startswith(ROOT + "."):
            return None
        if fullname[len(ROOT) + 1 :] not in PATHS:
            # Said here, for else an installed older package would answer.
            raise ModuleNotFoundError(
                f"{fullname} has no counterpart in chunkloom; known: {', '.join(known_paths())}", name=fullname
            )
        # Not a subclass of importlib.abc.Loader: that module takes 10 ms to import.
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _OlderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _OlderModule(ModuleType):
    """A module whose names are looked up when they are used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = self.__name__[len(ROOT) + 1 :]
        if path == "globals" and name in ("g", "Flow"):
            _say(f"{self.__name__}.{name}", "nothing: settings are arguments now")
            return _settings if name == "g" else SimpleNamespace
        for place in PATHS[path]:
            with contextlib.suppress(ModuleNotFoundError):
                module = importlib.import_module(place)
                if hasattr(module, name):
                    _say(f"{self.__name__}.{name}", f"{place}.{name}")
                    return getattr(module, name)
        raise AttributeError(f"{self.__name__} has no counterpart of {name!r} in chunkloom")


def _say(older: str, newer: str) -> None:
    if older not in _said:
        _said.add(older)
        warnings.warn(f"{older} is {newer}", DeprecationWarning, stacklevel=3)


def known_paths() -> list[str]:
    """The older modules that are answered for."""
    return [ROOT, *(f"{ROOT}.{path}" for path in PATHS if path)]


_FINDER = _Finder()
