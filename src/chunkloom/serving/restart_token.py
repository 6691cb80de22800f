"""The secret that lets one process ask another to train again: made, kept in a file, compared.

The file is readable by its owner alone. What is done on a restart is not known here.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from pathlib import Path

from chunkloom.errors import ParameterError

_LONGEST = 4096


def make_token() -> str:
    """A new secret, 256 bits."""
    return secrets.token_urlsafe(32)


def write_token(path: str | os.PathLike[str], token: str) -> None:
    """Keep `token` in a file that only its owner reads, in place of one that was there."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    # Created with its final mode: there is no moment at which others could open it.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(token + "\n")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_token(path: str | os.PathLike[str]) -> str:
    """The secret in a file.

    Raises
    ------
    ParameterError
        No such file, or an empty one.
    """
    try:
        with open(path, encoding="ascii") as stream:
            token = stream.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"restart token {os.fspath(path)}: cannot be read: {error}") from error
    if not token:
        raise ParameterError(f"restart token {os.fspath(path)}: the file is empty")
    return token


def same_token(given: bytes | None, expected: str) -> bool:
    """Whether a request's secret is the expected one; takes as long for any wrong one."""
    return given is not None and bool(expected) and hmac.compare_digest(given, expected.encode())
