"""What callers of the REST API may open: sources below named places, and models that are data.

Decides from the text of a path and, for local ones, from where its links lead; opens nothing. Knows no HTTP.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chunkloom import settings
from chunkloom.errors import AccessError, ParameterError
from chunkloom.io.paths import Location, parse_path

SYNTHETIC = "synthetic://"
DATA_MODELS = ("onnx",)  # kinds whose files cannot run code
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]*")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# What `parse_path` or a server could read a second time: escapes, format suffixes, queries.
_URL_MARKS = re.compile(r"[%\\?#|]|::")
_FILE_MARKS = re.compile(r"[|\\]|::|://")


@dataclass(frozen=True)
class SourceRules:
    """The places below which sources may be opened; none but `synthetic://` unless given.

    Attributes
    ----------
    folders
        Local ones, as real paths (all links followed).
    places
        URL prefixes, normalized: lower-case scheme and host, no default port, no trailing slash.
    """

    folders: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    @classmethod
    def parse(cls, roots: Sequence[str]) -> SourceRules:
        """The rules of `--allow-root` values. Raises `ParameterError` for one that is no folder and no URL."""
        folders, places = [], []
        for root in roots:
            location = parse_path(root)
            if not location.is_local:
                try:
                    places.append(_normalized(location))
                except AccessError as error:
                    raise ParameterError(f"--allow-root {root}: {error}") from error
                continue
            if not os.path.exists(location.base):
                raise ParameterError(f"--allow-root {root}: no such folder")
            folders.append(os.path.realpath(location.base))
        return cls(tuple(folders), tuple(places))

    def admitted(self, source: str) -> str:
        """The path to open for `source`: the place that was checked, spelled so that nothing else can be read in it.

        Raises
        ------
        AccessError
            It is not below an allowed place, or its spelling could mean another one.
        ParameterError
            It is no path at all.
        """
        if _CONTROL.search(source):
            raise AccessError(f"source {source!r} holds control characters")
        if source.startswith(SYNTHETIC):
            return source
        location = parse_path(source)
        if not location.is_local:
            base = _normalized(location)
            if not any(_below(base, place, "/") for place in self.places):
                raise self._refusal(source)
        else:
            if "file://" in source.lower():
                raise AccessError(f"source {source!r}: give a local path without file://")
            base = self.admitted_file(location.base)
        spelled = f"{location.format}://{base}" if location.format else base
        spelled = f"{spelled}::{location.inner}" if location.inner else spelled
        again = parse_path(spelled)
        if (again.base, again.inner) != (base, location.inner):
            raise AccessError(f"source {source!r} can be read in two ways: expected a plain path or URL")
        return spelled

    def admitted_file(self, path: str) -> str:
        """The real path of a local file or folder below an allowed folder. Raises as `admitted`."""
        if _CONTROL.search(path):
            raise AccessError(f"path {path!r} holds control characters")
        real = os.path.realpath(os.path.expanduser(path))
        if not any(_below(real, folder, os.sep) for folder in self.folders):
            raise self._refusal(path)
        if _FILE_MARKS.search(real):
            raise AccessError(f"path {path!r}: names with '|', '\\', '::' or '://' cannot be opened here")
        return real

    def _refusal(self, source: str) -> AccessError:
        named = ", ".join([SYNTHETIC, *self.folders, *self.places])
        return AccessError(
            f"source {source!r} is not below a place that may be opened here ({named}): start the server with "
            "--allow-root for it"
        )


def _below(path: str, root: str, separator: str) -> bool:
    return path == root or path.startswith(root.rstrip(separator) + separator)


def _normalized(location: Location) -> str:
    """A URL in the one spelling that is compared. Raises `AccessError` for one that could mean another place."""
    scheme, host, key = location.scheme, location.root.split("://", 1)[1], location.key
    pattern = _HOST if scheme in _DEFAULT_PORTS else _BUCKET
    if not pattern.fullmatch(host):
        raise AccessError(
            f"{location.text!r} names {host!r}: expected a host name or IPv4 address without user or password"
            if scheme in _DEFAULT_PORTS
            else f"{location.text!r} names {host!r}: expected a bucket"
        )
    if location.query:
        raise AccessError(f"{location.text!r} has a query: expected a plain URL")
    # `parse_path` has unescaped it once: what is still escaped would be unescaped by somebody else.
    if _URL_MARKS.search(key) or _CONTROL.search(key) or any(part in (".", "..") for part in key.split("/")):
        raise AccessError(
            f"{location.text!r}: its path holds dots, escapes or one of % \\ ? # | ::, expected a plain URL"
        )
    if scheme in _DEFAULT_PORTS:
        host = host.lower().removesuffix(_DEFAULT_PORTS[scheme])
    return f"{scheme}://{host}/{key}".rstrip("/")


def hosts_from_environment() -> tuple[str, ...]:
    """The names in `CHUNKLOOM_ALLOWED_HOSTS`, separated by commas."""
    named = settings.environment("ALLOWED_HOSTS") or ""
    return tuple(host.strip() for host in named.split(",") if host.strip())


@dataclass(frozen=True)
class ApiOptions:
    """What the REST API of a server allows.

    Attributes
    ----------
    allow_edit
        Whether volumes may be made, replaced and deleted, and caches cleared, by those with the token.
    token
        The secret that edits need, and that shows where volumes come from.
    sources
        What may be opened.
    allow_code
        Whether ops and models that run Python code may be made.
    hosts
        Names under which the server is asked for, besides loopback and the address it listens on.
    """

    allow_edit: bool = False
    token: str | None = field(default=None, repr=False)
    sources: SourceRules = field(default_factory=SourceRules)
    allow_code: bool = False
    hosts: tuple[str, ...] = field(default_factory=hosts_from_environment)

    def __post_init__(self) -> None:
        if self.token is not None and not re.fullmatch(r"[\x21-\x7e]+", self.token):
            raise ParameterError("the token must be printable ASCII without spaces, and not empty")
        if self.allow_edit and self.token is None:
            raise ParameterError("edits need a token: give one with --token or CHUNKLOOM_TOKEN")

    def admitted_model(self, model: str | dict[str, Any], bundled: Sequence[str]) -> str | dict[str, Any]:
        """The model to load: the name of a bundled one, or one whose files lie below an allowed folder.

        Raises
        ------
        AccessError
            A kind that runs code without `allow_code`, or a file that is not below an allowed folder.
        """
        if isinstance(model, dict):
            kind = str(model.get("type", ""))
            if kind not in DATA_MODELS and not self.allow_code:
                raise AccessError(f"a model of type {kind!r} runs code: start the server with --allow-code")
            return {
                key: self.sources.admitted_file(value) if "path" in key and isinstance(value, str) else value
                for key, value in model.items()
            }
        if model in bundled:
            return model
        path = self.sources.admitted_file(model)
        if path.endswith(".py") and not self.allow_code:
            raise AccessError(f"model {model!r} is Python code: start the server with --allow-code")
        return path
