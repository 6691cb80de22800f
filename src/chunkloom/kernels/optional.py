"""Libraries that only some kernels need: imported when used; a missing one says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from chunkloom.errors import MissingExtraError


def optional_module(name: str, extra: str, purpose: str) -> ModuleType:
    """The module `name`, which the extra `extra` installs; `purpose` says who needs it.

    Raises
    ------
    MissingExtraError
        If it is not installed. The message ends with the command that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package}, which cannot be imported ({error}); "
            f"install it with: pip install 'chunkloom[{extra}]'"
        ) from error
