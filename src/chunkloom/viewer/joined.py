"""Objects that continue over chunks, in one colour: ids that were found to be one object are told to the viewer.

A chunk's labels are its own (`Volume.seams`); which of them belong together is found while chunks are computed, and
must reach a viewer that is open already. Knows viewers and seams, not where either come from.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.kernels.seams import Seams

PAUSE_S = 1.0
"""Between two updates of a viewer: each sends its whole state to the page, and may take back a move just made."""


def follow(viewer: neuroglancer.Viewer, seams: Mapping[str, Seams]) -> None:
    """Keep the equivalences of the layers of `viewer` what `seams`, by layer name, have found.

    Ends when the viewer is no longer kept. A layer that somebody took away is left alone.
    """
    threading.Thread(
        target=_serve, args=(weakref.ref(viewer), dict(seams)), name="chunkloom-joined", daemon=True
    ).start()


def _serve(held: weakref.ref[neuroglancer.Viewer], seams: Mapping[str, Seams]) -> None:
    changed = threading.Event()
    ends = [each.listen(changed.set) for each in seams.values()]
    told = dict.fromkeys(seams, 0)
    changed.set()  # what was found before
    try:
        while True:
            if changed.wait(1.0):
                changed.clear()
                viewer = held()
                if viewer is None:
                    return
                _tell(viewer, seams, told)
                del viewer
                time.sleep(PAUSE_S)
            elif held() is None:
                return
    finally:
        for end in ends:
            end()


def _tell(viewer: neuroglancer.Viewer, seams: Mapping[str, Seams], told: dict[str, int]) -> None:
    found = {name: each.groups() for name, each in seams.items()}
    new = {name: groups for name, groups in found.items() if sum(map(len, groups)) - len(groups) != told[name]}
    if not new:
        return
    with viewer.txn() as state:
        for name, groups in new.items():
            if name in state.layers:
                state.layers[name].layer.equivalences = groups
    # Each joining leaves one group less over the same ids, or one id more in a group.
    told.update({name: sum(map(len, groups)) - len(groups) for name, groups in new.items()})
