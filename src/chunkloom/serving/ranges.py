"""Parts of an answer: what `Range` asks for (RFC 9110, 14), and what a request's conditions leave of a whole answer.

Knows nothing of volumes.
"""

from __future__ import annotations

import re

from chunkloom.serving.answers import CORS, Answer, Headers, Scope, header, matches, not_modified

_CONDITIONS = frozenset({b"if-none-match", b"range"})
_ONE_RANGE = re.compile(rb"bytes\s*=\s*([0-9]*)\s*-\s*([0-9]*)\s*", re.IGNORECASE)
_TOO_LONG = 18
"""A number of more digits is past the end of anything."""


def fitted(scope: Scope, whole: Answer) -> Answer:
    """What a GET or HEAD gets of `whole`: all of it, 304, the part it asks for (206), or 416 where there is none.

    `Range` counts for GET only (RFC 9110, 14.2). Several ranges in one request, and ranges that are none, get all.
    """
    for name, _ in scope["headers"]:
        if name in _CONDITIONS:
            break
    else:
        return whole
    if whole.start["status"] != 200 or whole.etag is None:
        return whole
    if matches(whole.etag, header(scope, b"if-none-match")):
        return not_modified(whole.etag, _value(whole, b"cache-control"))
    asked = header(scope, b"range")
    if asked is None or scope["method"] != "GET" or not _still_the_same(whole.etag, header(scope, b"if-range")):
        return whole
    body: bytes = whole.body["body"]
    part = byte_range(asked, len(body))
    if part is None:
        return whole
    if not part:
        return _partial(whole, 416, b"", b"bytes */%d" % len(body))
    return _partial(
        whole, 206, body[part.start : part.stop], b"bytes %d-%d/%d" % (part.start, part.stop - 1, len(body))
    )


def byte_range(value: bytes, length: int) -> range | None:
    """The bytes of a body of `length` that a `Range` header names.

    Empty where it names none of them; None where it is not one range of bytes, and so to be ignored.

    Examples
    --------
    >>> byte_range(b"bytes=2-4", 10), byte_range(b"bytes=8-", 10), byte_range(b"bytes=-3", 10)
    (range(2, 5), range(8, 10), range(7, 10))
    """
    match = _ONE_RANGE.fullmatch(value)
    if match is None:
        return None
    first, last = (_number(digits) for digits in match.groups())
    if first is None:
        if last is None:
            return None
        return range(max(0, length - last), length)
    if last is not None and last < first:
        return None
    return range(first, length if last is None else min(last + 1, length)) if first < length else range(0)


def _number(digits: bytes) -> int | None:
    if not digits:
        return None
    digits = digits.lstrip(b"0") or b"0"
    return int(digits) if len(digits) <= _TOO_LONG else 10**_TOO_LONG


def _still_the_same(etag: bytes, if_range: bytes | None) -> bool:
    """Strong comparison (RFC 9110, 13.1.5). A date never matches: no answer here has one."""
    return if_range is None or if_range.strip() == etag


def _partial(whole: Answer, status: int, body: bytes, content_range: bytes) -> Answer:
    headers: Headers = [
        (b"content-type", _value(whole, b"content-type")),
        (b"content-length", b"%d" % len(body)),
        (b"content-range", content_range),
        (b"cache-control", _value(whole, b"cache-control") if status == 206 else b"no-store"),
        *CORS,
    ]
    if status == 206 and whole.etag is not None:
        headers.append((b"etag", whole.etag))
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
        whole.etag,
    )


def _value(whole: Answer, name: bytes) -> bytes:
    headers: Headers = whole.start["headers"]
    return next(value for key, value in headers if key == name)
