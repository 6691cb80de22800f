"""Files kept inside a network file: configurations, scripts, anything, with metadata. Content is bytes or text, kept
exactly."""

from __future__ import annotations

import copy
import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.errors import NetworkExistsError, NetworkNotFoundError, ParameterError
from chunkloom.network.records import Blob, Delete
from chunkloom.network.resource import Network, Resource, checked_name
from chunkloom.network.statistics import FILES


@dataclass(frozen=True)
class StoredFile:
    """One stored file: its content as bytes, or as text if it was stored as text."""

    id: str
    content: bytes | str
    encoding: str | None
    meta: dict[str, Any]
    mtime: int


class FileStore(Resource):
    """The files of a network file, by id."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, FILES)

    @handles_handles("r")
    def all(self, *, handle: ReadHandle = OWN) -> dict[str, dict[str, Any]]:
        """Metadata of every file, by id."""
        return {id: _meta(node) for id, node in handle.file[FILES].items()}

    @handles_handles("r")
    def has(self, id: str, *, handle: ReadHandle = OWN) -> bool:
        """Whether there is a file with this id."""
        return bool(id) and "/" not in id and id in handle.file[FILES]

    @handles_handles("r")
    def load(self, id: str, *, handle: ReadHandle = OWN) -> StoredFile:
        """One file (`NetworkNotFoundError` if there is none with this id)."""
        node = self._node(handle, id)
        raw = node[()]
        content = bytes(raw) if isinstance(raw, bytes) else str(raw).encode()
        length = node.attrs.get("chunkloom_length")
        if length is not None:
            content = content[: int(length)].ljust(int(length), b"\0")
        encoding = node.attrs.get("encoding")
        encoding = None if encoding is None else str(encoding)
        text: bytes | str = content if encoding is None else content.decode(encoding)
        return StoredFile(id, text, encoding, _meta(node), int(node.attrs.get("mtime", 0)))

    @handles_handles("a")
    def store(
        self,
        content: bytes | str,
        id: str | None = None,
        meta: Mapping[str, Any] | None = None,
        encoding: str | None = None,
        *,
        overwrite: bool = False,
        handle: WriteHandle = OWN,
    ) -> str:
        """Store a file and return its id (a new one if none is given).

        Parameters
        ----------
        content : bytes or str
            Text is stored in `encoding`, UTF-8 by default.
        meta : mapping
            Anything JSON can say. Not changed.
        overwrite : bool
            Replace a file of the same id.

        Raises
        ------
        NetworkExistsError
            There is one with this id, and not `overwrite`.
        """
        name = checked_name(id if id is not None else str(uuid.uuid4()), "file id")
        if not overwrite and name in handle.file[FILES]:
            raise NetworkExistsError(f"there is a file {name!r} already; pass overwrite=True to replace it")
        handle.submit(_blob(name, content, meta, encoding, ()))
        return name

    @handles_handles("a")
    def remove(self, id: str, *, handle: WriteHandle = OWN) -> None:
        """Remove a file (`NetworkNotFoundError` if there is none with this id)."""
        self._node(handle, id)
        handle.submit(Delete(f"{FILES}/{id}"))

    def get_meta(self, id: str) -> dict[str, Any]:
        """The metadata of a file."""
        return self.load(id).meta

    def get_mtime(self, id: str) -> int:
        """When a file was stored, in seconds of the epoch."""
        return self.load(id).mtime

    def get_encoding(self, id: str) -> str | None:
        """The encoding of a text; None for bytes."""
        return self.load(id).encoding

    @handles_handles("r")
    def active_id(self, *, handle: ReadHandle = OWN) -> str | None:
        """Id of the active configuration, if there is one."""
        found = (id for id, meta in self.all(handle=handle).items() if meta.get("active_config"))
        return next(found, None)

    def load_active_config(self) -> Any:
        """The active configuration, as the data its JSON says (`NetworkNotFoundError` if there is none)."""
        with self.network.reading() as handle:
            id = self.active_id(handle=handle)
            if id is None:
                raise NetworkNotFoundError("this file has no active configuration; store_active_config stores one")
            return json.loads(self.load(id, handle=handle).content)

    @handles_handles("a")
    def store_active_config(
        self, config: Any, meta: Mapping[str, Any] | None = None, *, handle: WriteHandle = OWN
    ) -> str:
        """Store a configuration (anything JSON can say) as the active one; the former goes in the same step."""
        former = tuple(id for id, m in self.all(handle=handle).items() if m.get("active_config"))
        name = str(uuid.uuid4())
        told = {**(meta or {}), "active_config": True}
        handle.submit(_blob(name, json.dumps(config), told, None, former))
        return name

    def _node(self, handle: ReadHandle, id: str) -> h5py.Dataset:
        if not self.has(id, handle=handle):
            known = ", ".join(handle.file[FILES]) or "none"
            raise NetworkNotFoundError(f"no stored file {id!r}; there are: {known}")
        return handle.file[FILES][id]


def _blob(
    id: str, content: bytes | str, meta: Mapping[str, Any] | None, encoding: str | None, removes: tuple[str, ...]
) -> Blob:
    if isinstance(content, str):
        encoding = encoding or "utf-8"
        content = content.encode(encoding)
    mtime = int(time.time())
    told = {**copy.deepcopy(dict(meta or {})), "mtime": mtime, "content_sha256": hashlib.sha256(content).hexdigest()}
    try:
        text = json.dumps(told)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"file {id!r}: its metadata cannot be written as JSON: {error}") from error
    data = np.frombuffer(content, np.uint8)
    return Blob(id, encoding, text, mtime, removes, {"content": data})


def _meta(node: h5py.Dataset) -> dict[str, Any]:
    text = node.attrs.get("meta")
    found: dict[str, Any] = {} if text is None else json.loads(text)
    return found
