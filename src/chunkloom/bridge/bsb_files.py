"""BSB's file store on a network file's."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

from bsb.exceptions import MissingActiveConfigError
from bsb.storage.interfaces import FileStore as BsbFileStore


class FileStore(BsbFileStore):  # type: ignore[misc, unused-ignore]
    """The stored files, for BSB: content comes with its metadata."""

    def all(self) -> dict[str, Any]:
        return dict(self._engine.network.files.all())

    def store(
        self, content: Any, id: Any = None, meta: Any = None, encoding: Any = None, overwrite: bool = False
    ) -> str:
        return str(self._engine.network.files.store(content, id, meta, encoding, overwrite=overwrite))

    def load(self, id: str) -> tuple[Any, dict[str, Any]]:
        found = self._engine.network.files.load(id)
        return found.content, found.meta

    def remove(self, id: str) -> None:
        self._engine.network.files.remove(id)

    def has(self, id: str) -> bool:
        return bool(self._engine.network.files.has(id))

    def get_mtime(self, id: str) -> int:
        return int(self._engine.network.files.get_mtime(id))

    def get_encoding(self, id: str) -> Any:
        return self._engine.network.files.get_encoding(id)

    def get_meta(self, id: str) -> Any:
        return self._engine.network.files.get_meta(id)

    def store_active_config(self, config: Any) -> str:
        self._engine.comm.barrier()
        id = None
        if self._engine.comm.get_rank() == 0:
            producer = {"package": "bsb-core", "version": importlib.metadata.version("bsb-core")}
            meta = {"produced": True, "producer": producer}
            id = self._engine.network.files.store_active_config(config.__tree__(), meta)
        return str(self._engine.comm.bcast(id, root=0))

    def load_active_config(self) -> Any:
        from bsb.config import Configuration

        id = self._engine.network.files.active_id()
        if id is None:
            raise MissingActiveConfigError("this network file has no active configuration")
        content, meta = self.load(id)
        loaded = Configuration(**json.loads(content), _store=self)
        loaded._meta = meta
        return loaded
