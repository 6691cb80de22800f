"""A Hugging Face Hub on this machine: repositories are folders, each with one commit."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0f3c" * 10


class LocalHub(ThreadingHTTPServer):
    """Serves `root/<owner>/<name>/<file>`; `asked` lists the paths that were asked for."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalHub

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            repo = self.server.root / parts[2] / parts[3]
            if not repo.is_dir():
                return self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body)
            siblings = [{"rfilename": p.name} for p in sorted(repo.iterdir())]
            found = json.dumps({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings}).encode()
            return self._send(200, found, {"Content-Type": "application/json"}, body)
        owner, name, _, revision, file = parts
        repo = self.server.root / owner / name
        if not repo.is_dir():
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body)
        if revision not in ("main", "v1", COMMIT):
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body)
        if not (repo / file).is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, body)
        data = (repo / file).read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self._send(200, data, headers, body)

    def _send(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass
