"""Remote places through tensorstore's key-value stores: http(s), s3, gs; their credentials and retries.

Knows no array formats. tensorstore is imported when the first remote key or array is read, never before.
"""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from pathlib import Path
from typing import Any

from chunkloom.errors import AccessError, ChunkReadError, FormatError
from chunkloom.io import web
from chunkloom.io.paths import Location

_NOISE = re.compile(r"\s*\[(tensorstore_spec|source locations|http_response_body|curl_code)=.*", re.DOTALL)
_HTTP_CODE = re.compile(r"\[?HTTP (?:response )?code:? (\d{3})\]?", re.IGNORECASE)

# Which way of asking a bucket took, where it was not the first. By the root of its URL.
_accepted: dict[str, str] = {}
_accepted_lock = threading.Lock()


@cache
def context() -> Any:
    """The one tensorstore context of the process: retries of about 5 s, no cache of its own (the engine has one)."""
    import tensorstore as ts

    retries = {"max_retries": 6, "initial_delay": "100ms", "max_delay": "2s"}
    return ts.Context(
        {
            "cache_pool": {"total_bytes_limit": 0},
            "http_request_retries": retries,
            "s3_request_retries": retries,
            "gcs_request_retries": retries,
        }
    )


def kvstore_spec(location: Location) -> dict[str, Any]:
    """The tensorstore spec of the folder at `location`, with the credentials that worked there before."""
    if location.is_local:
        return {"driver": "file", "path": location.base.rstrip("/") + "/"}
    return _spec(location, _accepted.get(location.root) or _ways(location)[0])


def open_for_writing(location: Location) -> Any:
    """The tensorstore `KvStore` of the folder at `location`, with the user's credentials where there are any."""
    import tensorstore as ts

    if location.scheme not in ("s3", "gs"):
        raise AccessError(f"{location} cannot be written to: expected a local path, s3:// or gs://")
    # Reading a public bucket may go without credentials, or through plain https; writing does not.
    signed = location.scheme == "gs" or has_aws_credentials()
    spec = _spec(location, "credentials" if signed else "anonymous")
    try:
        return ts.KvStore.open(spec, context=context()).result()
    except Exception as error:
        raise translate(error, location.base) from error


def read(location: Location, key: str, limit: int | None) -> tuple[bytes, str] | None:
    """Bytes and generation of one key; None for 404."""
    found = _whole(location, key)
    if found is not None and limit is not None and len(found[0]) > limit:
        raise FormatError(f"{location.base}/{key} holds {len(found[0])} bytes: expected a metadata document")
    return found


def _whole(location: Location, key: str) -> tuple[bytes, str] | None:
    if location.scheme in ("http", "https"):
        found = web.get(location.root, f"{location.key}/{key}" if location.key else key, location.query)
        if not isinstance(found, web.Elsewhere):
            return found
    asked = _ask(location, key, None)
    return (asked.value, asked.stamp.generation.hex()) if asked.state == "value" else None


def read_range(location: Location, key: str, begin: int, end: int) -> bytes | None:
    """Bytes `begin <= i < end` of one key; None for 404. "" is the file that `location` itself is."""
    found = _ask(location, key, slice(begin, end))
    return found.value if found.state == "value" else None


def _ask(location: Location, key: str, byte_range: slice | None) -> Any:
    """One key below `location`, asked for in each way there is until one is not refused; that way is remembered."""
    if not key:
        location, key = location.parent(), location.name
    known = _accepted.get(location.root)
    ways = _ways(location)
    first = known if known in ways else ways[0]
    try:
        return _ask_once(location, key, byte_range, first)
    except AccessError:
        for way in ways:
            if way == first:
                continue
            try:
                found = _ask_once(location, key, byte_range, way)
            except (AccessError, ChunkReadError):
                continue  # credentials of another place say nothing about this one
            with _accepted_lock:
                _accepted[location.root] = way
            return found
        raise


def _ask_once(location: Location, key: str, byte_range: slice | None, way: str) -> Any:
    import tensorstore as ts

    try:
        store = ts.KvStore.open(_spec(location, way), context=context()).result()
        return store.read(key, byte_range=byte_range).result()
    except Exception as error:
        raise translate(error, f"{location.base}/{key}") from error


def translate(error: Exception, where: str) -> AccessError | ChunkReadError:
    """What tensorstore says went wrong at `where`, as an error of ours."""
    text = plain(error)
    code = _HTTP_CODE.search(str(error))
    status = code.group(1) if code else ""
    if "PERMISSION_DENIED" in text or "UNAUTHENTICATED" in text or status in ("401", "403"):
        return AccessError(
            f"{where} cannot be read: access refused ({status or 403}). Check the path and, for a private place, "
            "the credentials"
        )
    if status in ("301", "302", "303", "307", "308"):
        return ChunkReadError(f"{where} cannot be read: it has moved ({status}). Use the address that it leads to")
    return ChunkReadError(f"{where} cannot be read: {text}")


def plain(error: Exception) -> str:
    """tensorstore's message without the spec and source locations it appends."""
    return _NOISE.sub("", str(error)).strip().replace("\n", " ")


def has_aws_credentials() -> bool:
    """Whether there is anything to sign with; asking for more (instance metadata) takes seconds where there is none."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if any(os.environ.get(name) for name in (*names, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")):
        return True
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials"
    return os.path.exists(file)


def _ways(location: Location) -> list[str]:
    """The ways to ask a place, in order: s3 anonymously first, gs with the user's credentials first."""
    if location.scheme == "s3":
        return ["anonymous", "credentials"] if has_aws_credentials() else ["anonymous"]
    if location.scheme == "gs" and has_google_credentials() and not _gs_endpoint():
        return ["credentials", "https"]
    return ["https"]


def _spec(location: Location, way: str) -> dict[str, Any]:
    path = f"{location.key}/" if location.key else ""
    if location.scheme in ("http", "https"):
        return {"driver": "http", "base_url": f"{location.root}{location.query}", "path": f"/{path}"}
    bucket = location.root.split("://", 1)[1]
    if location.scheme == "s3":
        return _s3_spec(bucket, path, way)
    if way == "credentials":
        return {"driver": "gcs", "bucket": bucket, "path": path}
    return {
        "driver": "http",
        "base_url": _gs_endpoint() or "https://storage.googleapis.com",
        "path": f"/{bucket}/{path}",
    }


def _s3_spec(bucket: str, path: str, way: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"driver": "s3", "bucket": bucket, "path": path}
    if way == "anonymous":
        spec["aws_credentials"] = {"type": "anonymous"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        spec["endpoint"] = endpoint.rstrip("/")
        spec["aws_region"] = region or "us-east-1"
    elif region:
        spec["aws_region"] = region
    return spec


def _gs_endpoint() -> str | None:
    """Where gs is, when the environment says that it is not at Google."""
    named = os.environ.get("STORAGE_EMULATOR_HOST") or os.environ.get("TENSORSTORE_GCS_HTTP_URL")
    if not named:
        return None
    return (named if "://" in named else f"http://{named}").rstrip("/")


def has_google_credentials() -> bool:
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return os.path.exists(named or Path.home() / ".config" / "gcloud" / "application_default_credentials.json")


def size_of(location: Location) -> tuple[int, str] | None:
    """Size of one remote file and a text that changes when it does; None where there is none.

    Servers are asked with HEAD. Where that takes a signature, which tensorstore makes only for reads, the size is
    found by reading single bytes, twice as far each time.
    """
    spec = kvstore_spec(location)
    if spec["driver"] == "http":
        found = _head(location, f"{spec['base_url'].split('?')[0]}{_quoted(spec['path'].rstrip('/'))}{location.query}")
        if found is not None:
            return found
    first = _state(location)
    if first is None:
        return None
    low, high = 1, 2
    while _has_byte(location, high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _has_byte(location, middle) else (low, middle)
    return high, first


def _head(location: Location, url: str) -> tuple[int, str] | None:
    import urllib.error
    import urllib.request

    class Staying(urllib.request.HTTPRedirectHandler):
        """Follows no redirect, as the reads that come after it: where it leads, nobody has said may be opened."""

        def redirect_request(self, *_: Any) -> None:
            return None

    opener = urllib.request.build_opener(Staying)
    try:
        with opener.open(urllib.request.Request(url, method="HEAD"), timeout=20) as answer:
            length = answer.headers.get("Content-Length")
            state = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            return (int(length), f"{state}-{length}") if length and length.isdigit() else None
    except (urllib.error.URLError, OSError, ValueError):
        return None  # the reads that follow say what is wrong, after retries


def _quoted(path: str) -> str:
    import urllib.parse

    return urllib.parse.quote(path)


def _state(location: Location) -> str | None:
    """The generation of a file; None where there is none."""
    # Two bytes: a server used in tests takes a range of the first byte alone for no range.
    found = _ask(location, "", slice(0, 2))
    return found.stamp.generation.hex() if found.state == "value" else None


def _has_byte(location: Location, offset: int) -> bool:
    try:
        found = _ask(location, "", slice(offset, offset + 1))
    except ChunkReadError as error:
        if is_range_error(error):
            return False
        raise
    return found.state == "value" and len(found.value) == 1


def is_range_error(error: Exception) -> bool:
    """Whether a server did not give the range of bytes it was asked for."""
    text = str(error)
    return "OUT_OF_RANGE" in text or "byte range" in text or "416" in text


def exists(location: Location, key: str) -> bool:
    """Whether there is something at `key`; False also where looking is refused."""
    try:
        return read_range(location, key, 0, 2) is not None
    except AccessError:
        return False
    except ChunkReadError as error:
        if is_range_error(error):
            return True  # shorter than the range, or a server without ranges
        raise


def forget_credentials() -> None:
    """Ask each bucket in the first way again."""
    with _accepted_lock:
        _accepted.clear()
