"""`Location`: a path as a person types it, taken apart.

Knows the spellings of places and format prefixes; looks at no file (but for `file://`, where a `%` may be meant
literally) and opens no connection.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Literal

from chunkloom.errors import ParameterError, nearest

FormatHint = Literal["zarr", "zarr2", "zarr3", "n5", "precomputed", "hdf5", "tiff"]

_FORMATS: dict[str, FormatHint] = {
    "zarr": "zarr",
    "zarr2": "zarr2",
    "zarr3": "zarr3",
    "n5": "n5",
    "precomputed": "precomputed",
    "neuroglancer-precomputed": "precomputed",
    "hdf5": "hdf5",
    "h5": "hdf5",
    "tiff": "tiff",
}
_SCHEMES = ("file", "http", "https", "s3", "gs")
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)
_PIPE = re.compile(r"^(.*)\|([A-Za-z0-9-]+):([^|]*)$", re.DOTALL)
_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".nwb")
_TIFF_SUFFIXES = (".tif", ".tiff", ".btf", ".tf8", ".tf2")
_CONTAINER_SUFFIXES = (".zarr", ".n5")


@dataclass(frozen=True, slots=True)
class Location:
    """Where something lies.

    Attributes
    ----------
    text : the path as typed, for messages.
    base : an absolute local path, or a URL without a trailing slash. URLs are unescaped (`%20` is a space); the query
        of an http URL is in `query`.
    format : what the prefix, suffix or `|format:` says it is; None when only looking can tell.
    inner : the dataset inside an HDF5 file (`file.h5::/volumes/raw`), else "".
    query : the query string of an http URL with its "?", else "".
    """

    text: str
    base: str
    format: FormatHint | None = None
    inner: str = ""
    query: str = ""

    @property
    def scheme(self) -> str:
        """`file`, `http`, `https`, `s3` or `gs`."""
        found = _URL.match(self.base)
        return found.group(1) if found else "file"

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def root(self) -> str:
        """What `parent` never leaves: `/`, or `scheme://host` (`s3://bucket`)."""
        if self.is_local:
            return os.sep
        scheme, rest = self.base.split("://", 1)
        return f"{scheme}://{rest.split('/', 1)[0]}"

    @property
    def key(self) -> str:
        """The path under `root`, without a leading slash."""
        return self.base[len(self.root) :].lstrip("/")

    @property
    def name(self) -> str:
        """The last component."""
        return self.key.rsplit("/", 1)[-1]

    @property
    def is_root(self) -> bool:
        return not self.key

    @property
    def in_container(self) -> bool:
        """Whether this lies inside (is not itself) a folder whose name ends in `.zarr` or `.n5`."""
        return any(part.endswith(_CONTAINER_SUFFIXES) for part in self.key.split("/")[:-1])

    @property
    def container_suffix(self) -> str:
        """`.zarr` or `.n5` of the innermost component that ends so (this one included), else ""."""
        for part in reversed(self.key.split("/")):
            for suffix in _CONTAINER_SUFFIXES:
                if part.endswith(suffix):
                    return suffix
        return ""

    def child(self, path: str) -> Location:
        """The place `path` (relative, `/` between parts) below this one. "." and "" are this one; ".." goes up."""
        here = self
        for part in path.strip("/").split("/"):
            if part == "..":
                here = here.parent()
            elif part not in ("", "."):
                here = replace(here, base=f"{here.base.rstrip('/')}/{part}", text=f"{here.text.rstrip('/')}/{part}")
        return here

    def parent(self) -> Location:
        if self.is_root:
            return self
        base = self.base.rsplit("/", 1)[0]
        base = base if len(base) >= len(self.root) else self.root
        return replace(self, base=base, text=base)

    def __str__(self) -> str:
        return f"{self.base}::{self.inner}" if self.inner else self.base


def parse_path(path: str | os.PathLike[str]) -> Location:
    """Take a path apart.

    Local paths (spaces, `#`, `%` and a trailing slash are fine; `\\ ` is a space; `~` is the home folder),
    `file://`, `http(s)://`, `s3://`, `gs://`; Neuroglancer's forms `zarr://URL`, `zarr2://`, `zarr3://`, `n5://`,
    `precomputed://`, and `URL|zarr3:inner/path`; `file.h5::/dataset`.

    Raises
    ------
    ParameterError
        For an empty path or an unknown scheme.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ParameterError(f"a path must be text, found {type(text).__name__}")
    rest = text.strip()
    if not rest:
        raise ParameterError("the path is empty: expected a local path or a URL of a volume")
    if "\0" in rest:
        raise ParameterError(f"the path {text!r} holds a NUL character")
    hint: FormatHint | None = None
    below = ""

    piped = _PIPE.match(rest)
    if piped and piped.group(2) in _FORMATS:
        rest, hint, below = piped.group(1), _FORMATS[piped.group(2)], piped.group(3).strip("/")
    elif piped and _URL.match(rest):
        raise ParameterError(
            f"unknown format {piped.group(2)!r} after '|' in {text}: {nearest(piped.group(2), list(_FORMATS))}"
        )

    url = _URL.match(rest)
    while url and url.group(1) in _FORMATS:
        hint = hint or _FORMATS[url.group(1)]
        rest = url.group(2)
        url = _URL.match(rest)

    inner = ""
    if "::" in rest:
        rest, inner = rest.split("::", 1)
        hint = hint or "hdf5"
    if hint == "hdf5" and below:
        inner, below = inner or below, ""

    query = ""
    if url is None:
        base = _local(rest)
    elif url.group(1).lower() == "file":
        base = _local_of_file_url(rest[len("file://") :])
    elif url.group(1).lower() in _SCHEMES:
        base, query = _remote(url.group(1).lower(), rest[len(url.group(1)) + 3 :], text)
    else:
        raise ParameterError(
            f"unknown scheme {url.group(1)}:// in {text}: {nearest(url.group(1), [*_SCHEMES, *_FORMATS])}"
        )
    location = Location(text=text, base=base, format=hint, inner=inner.strip("/"), query=query)
    if below:
        location = replace(location.child(below), text=text)
    return location if location.format and location.format != "hdf5" else _by_suffix(location)


def _local(path: str) -> str:
    if "\\ " in path:
        path = path.replace("\\ ", " ")
    return os.path.abspath(os.path.expanduser(path))


def _local_of_file_url(path: str) -> str:
    """The path of `file://…`: unescaped, unless it names something as it stands."""
    path = path.removeprefix("localhost") if path.startswith("localhost/") else path
    if not os.path.exists(path):
        path = _unescaped(path)
    return os.path.abspath(path)


def _remote(scheme: str, rest: str, text: str) -> tuple[str, str]:
    query = ""
    if scheme in ("http", "https"):
        if "?" in rest:
            rest, query = rest.split("?", 1)
            query = f"?{query}"
        host, slash, key = rest.partition("/")
        rest = host + slash + _unescaped(key)
    host, _, key = rest.partition("/")
    if not host:
        raise ParameterError(f"{text} names no {'bucket' if scheme in ('s3', 'gs') else 'host'}")
    parts = [part for part in key.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise ParameterError(f"{text}: '.' and '..' have no meaning in a {scheme}:// path")
    return "/".join([f"{scheme}://{host}", *parts]), query


def _unescaped(path: str) -> str:
    if "%" not in path:
        return path
    import urllib.parse

    return urllib.parse.unquote(path)


def _by_suffix(location: Location) -> Location:
    """With the format that a file's suffix says; `x.h5/volumes/raw` is dataset `volumes/raw` of `x.h5`."""
    parts = location.key.split("/")
    for i, part in enumerate(parts):
        if part.lower().endswith(_HDF5_SUFFIXES) and not (location.is_local and _is_folder(location, parts[: i + 1])):
            base = location.root.rstrip("/") + "/" + "/".join(parts[: i + 1])
            inner = location.inner or "/".join(parts[i + 1 :])
            return replace(location, base=base, format="hdf5", inner=inner)
    if parts[-1].lower().endswith(_TIFF_SUFFIXES) and location.format is None:
        return replace(location, format="tiff")
    return location


def _is_folder(location: Location, parts: list[str]) -> bool:
    return os.path.isdir(location.root + "/".join(parts))
