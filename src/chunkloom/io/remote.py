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
from chunkloom.io.paths import Location

_NOISE = re.compile(r"\s*\[(tensorstore_spec|source locations|http_response_body|curl_code)=.*", re.DOTALL)
_HTTP_CODE = re.compile(r"\[?HTTP (?:response )?code:? (\d{3})\]?", re.IGNORECASE)

# Which credentials a bucket took: "anonymous" or "default". Remembered per (scheme, bucket).
_accepted: dict[tuple[str, str], str] = {}
_accepted_lock = threading.Lock()


@cache
def context() -> Any:
    """The one tensorstore context of the process: retries of about 5 s, no cache of its own (the engine has one)."""
    import tensorstore as ts

    retries = {"max_retries": 7, "initial_delay": "100ms", "max_delay": "2s"}
    return ts.Context(
        {
            "cache_pool": {"total_bytes_limit": 0},
            "http_request_retries": retries,
            "s3_request_retries": retries,
            "gcs_request_retries": retries,
        }
    )


def kvstore_spec(location: Location) -> dict[str, Any]:
    """The tensorstore spec of the folder at `location`."""
    if location.is_local:
        return {"driver": "file", "path": location.base.rstrip("/") + "/"}
    path = f"{location.key}/" if location.key else ""
    if location.scheme in ("http", "https"):
        return {"driver": "http", "base_url": f"{location.root}{location.query}", "path": f"/{path}"}
    bucket = location.root.split("://", 1)[1]
    if location.scheme == "s3":
        return _s3_spec(bucket, path)
    return _gs_spec(bucket, path)


def read(location: Location, key: str, limit: int | None) -> tuple[bytes, str] | None:
    """Bytes and generation of one key; None for 404.

    An s3 bucket that refuses an anonymous request is asked again with the credentials there are.
    """
    try:
        return _read_once(location, key, limit)
    except AccessError:
        if not _switch_credentials(location):
            raise
    return _read_once(location, key, limit)


def read_range(location: Location, key: str, begin: int, end: int) -> bytes | None:
    """Bytes `begin <= i < end` of one key; None for 404. Credentials as in `read`."""
    try:
        found = _open_and_read(location, key, slice(begin, end))
    except AccessError:
        if not _switch_credentials(location):
            raise
        found = _open_and_read(location, key, slice(begin, end))
    return found.value if found.state == "value" else None


def _open_and_read(location: Location, key: str, byte_range: slice | None) -> Any:
    """One key below `location`; "" is the file that `location` itself is."""
    import tensorstore as ts

    if not key:
        location, key = location.parent(), location.name
    try:
        store = ts.KvStore.open(kvstore_spec(location), context=context()).result()
        return store.read(key, byte_range=byte_range).result()
    except Exception as error:
        raise translate(error, f"{location.base}/{key}") from error


def _read_once(location: Location, key: str, limit: int | None) -> tuple[bytes, str] | None:
    found = _open_and_read(location, key, None)
    where = f"{location.base}/{key}"
    if found.state != "value":
        return None
    if limit is not None and len(found.value) > limit:
        raise FormatError(f"{where} holds {len(found.value)} bytes: expected a metadata document")
    return found.value, found.stamp.generation.hex()


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


def _switch_credentials(location: Location) -> bool:
    """Use the user's credentials for this bucket from now on. False where there are none, or they are in use."""
    if location.scheme != "s3" or not has_aws_credentials():
        return False
    bucket = ("s3", location.root.split("://", 1)[1])
    with _accepted_lock:
        if _accepted.get(bucket) == "default":
            return False
        _accepted[bucket] = "default"
    return True


def _s3_spec(bucket: str, path: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"driver": "s3", "bucket": bucket, "path": path}
    if _accepted.get(("s3", bucket)) != "default":
        spec["aws_credentials"] = {"type": "anonymous"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        spec["endpoint"] = endpoint.rstrip("/")
        spec["aws_region"] = region or "us-east-1"
    elif region:
        spec["aws_region"] = region
    return spec


def _gs_spec(bucket: str, path: str) -> dict[str, Any]:
    """gs with the user's credentials where there are any, else plain https, which public buckets allow."""
    endpoint = os.environ.get("STORAGE_EMULATOR_HOST") or os.environ.get("TENSORSTORE_GCS_HTTP_URL")
    if has_google_credentials() and not endpoint:
        return {"driver": "gcs", "bucket": bucket, "path": path}
    host = (endpoint or "https://storage.googleapis.com").rstrip("/")
    if "://" not in host:
        host = f"http://{host}"
    return {"driver": "http", "base_url": host, "path": f"/{bucket}/{path}"}


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

    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20) as answer:
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
    try:
        found = _open_and_read(location, "", slice(0, 2))
    except AccessError:
        if not _switch_credentials(location):
            raise
        found = _open_and_read(location, "", slice(0, 2))
    return found.stamp.generation.hex() if found.state == "value" else None


def _has_byte(location: Location, offset: int) -> bool:
    try:
        found = _open_and_read(location, "", slice(offset, offset + 1))
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
    """Ask each bucket anonymously again."""
    with _accepted_lock:
        _accepted.clear()
