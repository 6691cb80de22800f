"""Asking the REST API of a real server, and small stored volumes to ask for."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

TOKEN = "test-token-0123456789"
RAW = np.arange(40 * 40 * 40, dtype=np.uint16).reshape(40, 40, 40)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The reason of a refusal: one line, and nothing else in the answer."""
        assert list(self.json) == ["error"]
        assert "\n" not in self.json["error"]
        return self.json["error"]


def ask(server, path, method="GET", *, body=None, token=None, headers=None) -> Reply:
    """One request; `body` is sent as JSON unless it is bytes."""
    sent = {"Content-Type": "application/json"} if body is not None else {}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    sent.update(headers or {})
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in sent)
        for name, value in sent.items():
            connection.putheader(name, value)
        if data is not None and "Content-Length" not in sent and "Transfer-Encoding" not in sent:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        if data is not None:
            connection.send(data)
        answer = connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def edit(server, path, method, body=None) -> Reply:
    """`ask` with the token."""
    return ask(server, path, method, body=body, token=TOKEN)


def write_zarr(folder, array=RAW):
    """`array` as an uncompressed zarr v2 array of one chunk, with voxels of 8 nm; the folder as text."""
    folder.mkdir(parents=True)
    described = {
        "zarr_format": 2,
        "shape": array.shape,
        "chunks": array.shape,
        "dtype": array.dtype.str,
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }
    (folder / ".zarray").write_text(json.dumps(described))
    (folder / ".zattrs").write_text(json.dumps({"resolution": [8, 8, 8], "offset": [0, 0, 0]}))
    (folder / "0/0").mkdir(parents=True)
    (folder / "0/0/0").write_bytes(array.tobytes())
    return str(folder)
