"""Points and lines as Neuroglancer layers: annotations served in the precomputed format.

Knows the address they are served at, and nothing of where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import neuroglancer


@dataclass(frozen=True, slots=True)
class AnnotationSpec:
    """A collection of annotations as a layer.

    Attributes
    ----------
    name
        What the layer is called in the viewer.
    url
        Where it is served, ``http://127.0.0.1:PORT/NAME/precomputed``.
    color
        "#rrggbb".
    """

    name: str
    url: str
    color: str


SHADER = """
void main() {
  setColor(defaultColor());
  setPointMarkerSize(8.0);
  setPointMarkerBorderWidth(1.0);
  setLineWidth(1.5);
  setEndpointMarkerSize(0.0, 5.0);
  setEndpointMarkerBorderWidth(0.0);
}
"""
"""Points as discs; lines with a disc at the end they go to."""


def annotation_layer(spec: AnnotationSpec) -> neuroglancer.AnnotationLayer:
    """The layer that shows a collection."""
    import neuroglancer

    source = f"{spec.url.rstrip('/')}/|neuroglancer-precomputed:"
    return neuroglancer.AnnotationLayer(source=source, annotation_color=spec.color, shader=SHADER)
