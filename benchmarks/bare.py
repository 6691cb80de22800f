"""The least an ASGI app can do: send bodies from memory, or files from a folder. Started by benchmarks/serve.py.

bare.py memory LISTING    LISTING: a JSON file of path -> file that holds the body
bare.py files LISTING
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path


def main() -> None:
    import uvicorn

    mode, listing = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    bodies = {path: Path(file).read_bytes() for path, file in listing.items()} if mode == "memory" else {}

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        path = scope["path"]
        if mode == "memory":
            body = bodies[path]
        else:
            with open(listing[path], "rb") as stream:
                body = stream.read()
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen(512)
    print(json.dumps({"port": made.getsockname()[1]}), flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[made])


main()
