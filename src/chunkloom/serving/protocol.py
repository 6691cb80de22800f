"""The layer URL: a model's prediction named together with the chain around the model.

`<model>__CFLOW_ARGS__<blob>__CFLOW_ARGS__` is one path segment; the blob is the chain as URL-safe base64 of JSON. The
words on the wire are older than chunkloom and stay as they are, so that old links and old dashboards work. Knows no
HTTP and no models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import AccessError, ParameterError

ARGS = "__CFLOW_ARGS__"
MODEL_INFO = "/__control__/model_info"
OUTPUT_PROBE = "/__control__/output_probe"
RESTART = "/__control__/restart"
RESTART_TOKEN_HEADER = "X-Restart-Token"
EQUIVALENCES = "/update/equivalences"

ENGINE = "chunkmirage"  # older dashboards append /zarr only to servers of this engine
SERVER = "chunkloom"

_NAME = re.compile(r"[^/\x00-\x1f\x7f?#]{1,500}")
_SEGMENT = re.compile(r"[A-Za-z0-9_.~-]+")


@dataclass(frozen=True)
class LayerName:
    """What a layer's path segment says.

    Attributes
    ----------
    model
        The model's name.
    chain
        The chain around it; None where the segment carries none: the model's own is then in force.
    dashboard_url
        Where equivalences of ids are to be sent, or None.
    extras
        What else the blob carries.
    """

    model: str
    chain: PipelineSpec | None = None
    dashboard_url: str | None = None
    extras: dict[str, Any] = field(default_factory=dict)


def layer_name(model: str, chain: PipelineSpec, *, dashboard_url: str | None = None) -> str:
    """The path segment of a model's prediction under a chain.

    Raises
    ------
    ParameterError
        A model whose name cannot stand in a URL's path.
    """
    if not _NAME.fullmatch(model) or ARGS in model:
        raise ParameterError(
            f"model name {model!r} cannot stand in a layer's URL: expected text without / ? # and {ARGS}"
        )
    extras: dict[str, Any] = {} if dashboard_url is None else {"dashboard_url": dashboard_url}
    return f"{model}{ARGS}{chain.to_url_blob(**extras, digest=chain.digest())}{ARGS}"


def parse_layer_name(segment: str) -> LayerName:
    """What a path segment (unescaped) names.

    Raises
    ------
    ParameterError
        It has neither none nor two markers, or its blob is damaged or was changed.
    """
    parts = segment.split(ARGS)
    if len(parts) == 1:
        return LayerName(segment)
    if len(parts) != 3 or not parts[0] or parts[2]:
        raise ParameterError(
            f"this layer's URL is malformed: expected <model>{ARGS}<chain>{ARGS}, found {len(parts) - 1} markers"
        )
    chain, extras = PipelineSpec.from_url_blob(parts[1])
    dashboard = extras.pop("dashboard_url", None)
    if dashboard is not None and not isinstance(dashboard, str):
        raise ParameterError(f"this layer's URL names the dashboard {dashboard!r}: expected an http(s) address")
    return LayerName(parts[0], chain, dashboard or None, extras)


@dataclass(frozen=True)
class Dashboard:
    """The dashboard that started a server: the only one that hears which ids are one object.

    Attributes
    ----------
    url
        Its address; None for a server that no dashboard started.
    tolerant
        Whether layers that name a dashboard are answered though the server was told of none. Then nothing is sent to
        anybody. For older dashboards, which start servers without saying who they are.
    """

    url: str | None = None
    tolerant: bool = False

    def __post_init__(self) -> None:
        if self.url is not None:
            _place(self.url)

    def admitted(self, named: str | None) -> str | None:
        """Where equivalences of a layer that names a dashboard go; None for nowhere.

        The dashboard's own address, or one below it: it may carry a token as a further segment.

        Raises
        ------
        AccessError
            Another dashboard.
        ParameterError
            No address at all.
        """
        if named is None:
            return None
        scheme, authority, path = _place(named)
        if self.url is None:
            if self.tolerant:
                return None
            raise AccessError(
                f"this layer's URL names the dashboard {scheme}://{authority}, and no dashboard started this server: "
                "copy the link again from where it came from, or start the server with CHUNKLOOM_DASHBOARD_URL"
            )
        own_scheme, own_authority, own_path = _place(self.url)
        below = path.removeprefix(own_path)
        if (
            (scheme, authority) != (own_scheme, own_authority)
            or not path.startswith(own_path)
            or below[:1] not in ("", "/")
        ):
            raise AccessError(
                f"this layer's URL names another dashboard, {scheme}://{authority}, than the one that started this "
                "server: which ids are one object is told to that one alone"
            )
        return f"{scheme}://{authority}{path}"


def _place(url: str) -> tuple[str, str, str]:
    """Scheme, authority and path of an address in the one spelling that is compared."""
    refusal = ParameterError(f"dashboard address {url[:200]!r}: expected http(s)://HOST[:PORT] and a plain path")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise refusal from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise refusal
    if re.search(r"[\x00-\x20\x7f\\%]", url):
        raise refusal
    segments = [segment for segment in parts.path.split("/") if segment]
    if any(segment in (".", "..") or not _SEGMENT.fullmatch(segment) for segment in segments):
        raise refusal
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, f"{host}:{shown}", "".join(f"/{segment}" for segment in segments)
