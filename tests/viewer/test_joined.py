"""An object that continues over chunks has one colour on the screen, although its chunks have ids of their own."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

from browser import Chromium
from chunkloom import Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.viewer.bootstrap import new_viewer
from chunkloom.viewer.layers import show

MASK = np.zeros((64, 64, 64), np.uint8)
MASK[8:56, 8:28, 4:60] = 1
MASK[8:56, 36:56, 4:60] = 1
CHUNK = (32, 32, 32)


def labelled():
    return Pipeline(array_volume(MASK), [ops.ConnectedComponents()], chunk=CHUNK, cache=ChunkCache())


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def groups_in(viewer):
    equivalences = viewer.state.layers["objects"].layer.equivalences
    return sorted(sorted(int(i) for i in group) for group in equivalences.to_json() or [])


def test_a_viewer_is_told_what_was_found_before_and_what_is_found_later(viewer, web):
    volume = labelled()
    volume.read(((0, 32), (0, 32), (0, 64)))
    show(viewer, [web.layer("objects", volume)])
    before = volume.seams.groups()
    wait_for(lambda: groups_in(viewer) == before)
    volume.read()
    after = volume.seams.groups()
    assert len(before) == 1
    assert [len(group) for group in after] == [4, 4]
    wait_for(lambda: groups_in(viewer) == after)


def test_a_viewer_that_is_gone_is_told_nothing(web):
    volume = labelled()
    viewer = new_viewer()
    show(viewer, [web.layer("objects", volume)])
    wait_for(lambda: volume.seams._listeners)
    served = len(volume.seams._listeners)
    del viewer
    gc.collect()
    wait_for(lambda: len(volume.seams._listeners) < served)


@pytest.mark.browser
def test_an_object_of_many_chunks_has_one_colour_on_the_screen(viewer, web, chromium: Chromium):
    show(viewer, [web.layer("objects", labelled())])
    with viewer.txn() as state:
        state.cross_section_scale = 0.25
        state.position = [32.5, 32.5, 20.5]  # x, y, z
        state.show_axis_lines = state.show_scale_bar = state.show_default_annotations = False
        state.layers["objects"].layer.selected_alpha = 1.0
    page = chromium.page()
    page.open(viewer.get_viewer_url())
    page.wait_until_drawn()

    def colours():
        seen = page.panels()["xy"].crop(page.screenshot().astype(int))
        middle = seen[40:-40, 40:-40].reshape(-1, 3)
        coloured = middle[np.ptp(middle, axis=1) > 20]
        found, counts = np.unique(coloured, axis=0, return_counts=True)
        return found[counts > 500]

    wait_for(lambda: len(groups_in(viewer)) == 2)
    wait_for(lambda: len(colours()) == 2)
    # Whenever the state changes here, the page gives up what it was about to say of its own.
    assert [text for text in page.problems() if "/state/" not in text] == []
    page.close()
