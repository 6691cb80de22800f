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


def _read_once(location: Location, key: str, limit: int | None) -> tuple[bytes, str] | None:
    import tensorstore as ts

    where = f"{location.base}/{key}"
    try:
        store = ts.KvStore.open(kvstore_spec(location), context=context()).result()
        found = store.read(key).result()
    except Exception as error:
        raise translate(error, where) from error
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
