"""Which layers show what a server serves: the raw volume in grey, everything else over it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chunkloom.errors import ParameterError
from chunkloom.viewer.contrast import contrast_range
from chunkloom.viewer.layers import PALETTE, LayerSpec

if TYPE_CHECKING:
    from chunkloom.engine.volume import Volume

log = logging.getLogger(__name__)


def scene(
    volumes: Mapping[str, Volume], server_url: str, *, raw: str, raw_server_url: str | None = None
) -> list[LayerSpec]:
    """Layers for the volumes of a chunk server, the one named `raw` first (lowest).

    Raw data is grey between sampled percentiles. Other images and masks get a colour of the palette each, images over
    all that their dtype holds (0 to 1 for floats); labels get a colour an id. A volume that Neuroglancer cannot show is
    left out, with a warning in the log that says why.

    Parameters
    ----------
    volumes
        By the name each is served under.
    server_url
        Of the server, ``http://127.0.0.1:PORT``.
    raw_server_url
        Another address of the same server, for the raw volume. A browser keeps six connections to an address open: with
        one of its own, raw chunks do not wait until predictions are computed.

    Raises
    ------
    ParameterError
        No volume called `raw`, or none that can be shown.
    """
    if raw not in volumes:
        raise ParameterError(f"no volume {raw!r} to show: there are {', '.join(sorted(volumes))}")
    layers: list[LayerSpec] = []
    refused: list[str] = []
    for name in [raw, *(name for name in volumes if name != raw)]:
        try:
            url = raw_server_url if name == raw and raw_server_url else server_url
            layers.append(_layer(name, volumes[name], url, raw, color=PALETTE[len(layers) % len(PALETTE)]))
        except ParameterError as error:
            log.warning("not shown: %s", error)
            refused.append(str(error))
    if not layers:
        raise ParameterError(f"nothing to show: {'; '.join(refused)}")
    return layers


def _layer(name: str, volume: Volume, server_url: str, raw: str, color: str) -> LayerSpec:
    # Signed 64-bit ids are read by Neuroglancer's zarr v2 source alone.
    word = "zarr2" if volume.levels[0].dtype.name == "int64" else "zarr3"
    url = f"{server_url.rstrip('/')}/{name}/{word}"
    if name == raw and volume.kind == "image":
        return LayerSpec.of_volume(volume, name=name, url=url, display_range=contrast_range(volume))
    return LayerSpec.of_volume(volume, name=name, url=url, color=None if volume.kind == "labels" else color)
