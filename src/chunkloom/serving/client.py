"""Asking a model server what it is. Never raises: a server may be old, starting, or gone."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from chunkloom.errors import ParameterError
from chunkloom.serving.protocol import MODEL_INFO, OUTPUT_PROBE, RESTART, RESTART_TOKEN_HEADER

MOST_BYTES = 1 << 20


def fetch_model_info(host: str, timeout: float = 3) -> dict[str, Any]:
    """What `/__control__/model_info` of the server at `host` (an address, or HOST:PORT) answers.

    Older servers have it at another path: both are tried. Where neither answers with an object:
    ``{"available": False, "reason": …}``.
    """
    base = _base(host)
    reason = "no answer"
    for path in (MODEL_INFO, OUTPUT_PROBE):
        try:
            with urllib.request.urlopen(base + path, timeout=timeout) as answer:
                body = answer.read(MOST_BYTES + 1)
            if len(body) > MOST_BYTES:
                raise ValueError(f"an answer of more than {MOST_BYTES} bytes")
            data = json.loads(body)
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            reason = f"{base}{path}: {error}"
            continue
        if isinstance(data, dict):
            return data
        reason = f"{base}{path}: expected an object, found {type(data).__name__}"
    return {"available": False, "reason": reason}


def request_restart(host: str, token: str, request: dict[str, Any], timeout: float = 5) -> None:
    """Ask the trainer behind the server at `host` to train again.

    Raises
    ------
    ParameterError
        It refuses, with its reason, or does not answer.
    """
    body = json.dumps({"restart": True, **request}).encode()
    headers = {"Content-Type": "application/json", RESTART_TOKEN_HEADER: token}
    address = _base(host) + RESTART
    try:
        with urllib.request.urlopen(
            urllib.request.Request(address, data=body, headers=headers, method="POST"), timeout=timeout
        ):
            return
    except urllib.error.HTTPError as error:
        said = error.read(MOST_BYTES).decode(errors="replace")
        raise ParameterError(f"{address}: {error.code}: {said.strip()}") from error
    except (OSError, ValueError, HTTPException) as error:
        raise ParameterError(f"{address}: {error}") from error


def _base(host: str) -> str:
    text = host.rstrip("/")
    return text if text.startswith(("http://", "https://")) else f"http://{text}"
