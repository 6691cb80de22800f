"""Cells and connections as annotations, read back by Neuroglancer's own reader over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Chromium, chromium  # noqa: F401  a fixture
from chunkloom import array_volume
from chunkloom.bridge import spatial
from chunkloom.bridge.annotations import cell_annotations, connection_annotations, network_annotations
from chunkloom.bridge.extract import extract
from chunkloom.errors import ParameterError
from chunkloom.network import Chunk, NetworkFile
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer
from chunkloom.viewer.annotations import AnnotationSpec
from chunkloom.viewer.bootstrap import new_viewer, stop_viewer
from chunkloom.viewer.layers import LayerSpec, show

SIZE = (40.0, 30.0, 20.0)


@pytest.fixture
def network(tmp_path: Path) -> NetworkFile:
    rng = np.random.default_rng(4)
    network = NetworkFile.create(tmp_path / "net.hdf5", chunk_size=SIZE)
    for name, count in (("granule", 200), ("golgi", 5)):
        cells = network.require_placement(name)
        for x in (-1, 0, 1):
            chunk = Chunk((x, 0, 2), SIZE)
            ids = rng.permutation(10**6)[:count].astype(np.uint64) + np.uint64(2**60)
            cells.append_data(
                chunk, chunk.ldc + rng.random((count, 3)) * SIZE,
                additional={
                    "label_id": ids, "voxels": rng.integers(0, 10**6, count), "bbox_begin_z": np.zeros(count, int),
                    "mean": rng.random(count), "touches_border": rng.random(count) < 0.5,
                    "huge": ids, "ODD name": np.zeros(count),
                },
            )  # fmt: skip
    links = network.require_connectivity("granule", "golgi", "fibers")
    links.connect(
        network.placement("granule"), network.placement("golgi"), rng.integers(0, 600, 900), rng.integers(0, 15, 900)
    )
    return network


@pytest.fixture
def served(network: NetworkFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[VolumeServer]:
    monkeypatch.setattr(spatial, "LIMIT", 60)
    monkeypatch.setattr(spatial.spatial_index, "__defaults__", (60,))
    app = create_app({})
    for collection in network_annotations(network):
        app.add_folder(collection.name, collection)
    with VolumeServer(app) as server:
        yield server


def reader(server: VolumeServer, name: str) -> Any:
    from neuroglancer.read_precomputed_annotations import AnnotationReader

    return AnnotationReader(f"{server.url}/{name}/precomputed/")


def everything(found: Any) -> dict[int, Any]:
    """All annotations of the spatial index, each in one level; in every cell of it that lists it, the same."""
    seen: dict[int, tuple[int, Any]] = {}
    for number, level in enumerate(found.spatial):
        for at in np.ndindex(*level.metadata["grid_shape"]):
            members = level[at]
            assert len(members) <= level.metadata["limit"]
            for each in members:
                before = seen.setdefault(int(each.id), (number, each))
                assert before[0] == number
    return {id: each for id, (_, each) in seen.items()}


def test_cells_are_points_with_their_properties_and_objects(network: NetworkFile, served: VolumeServer) -> None:
    found = reader(served, "cells-granule")
    cells = network.placement("granule")
    positions, more = cells.load_positions(), cells.load_all_additional()
    assert [(p.id, p.type) for p in found.properties] == [
        ("voxels", "int32"), ("mean", "float32"), ("touches_border", "uint8"),
    ]  # fmt: skip
    assert dict(found.coordinate_space.to_json()) == {axis: [1e-6, "m"] for axis in "xyz"}
    points = everything(found)
    assert sorted(points) == list(range(600))
    for i, point in points.items():
        np.testing.assert_array_equal(point.point, positions[i].astype(np.float32))
        told = [more["voxels"][i], np.float32(more["mean"][i]), more["touches_border"][i]]
        assert [float(value) for value in point.props] == [float(value) for value in told]
    one = found.by_id[17]
    assert one.point.tolist() == points[17].point.tolist()
    assert [int(id) for id in one.segments[0]] == [int(more["label_id"][17])]
    (related,) = found.relationships["object"][int(more["label_id"][17])]
    assert related.id == "17"
    assert found.relationships["object"][5] == []


def test_connections_are_lines_from_cell_to_cell(network: NetworkFile, served: VolumeServer) -> None:
    found = reader(served, "connections-fibers")
    pre, post = network.connectivity("fibers").load_connections()
    granule, golgi = (network.placement(name) for name in ("granule", "golgi"))
    a, b = granule.load_positions()[pre[:, 0]], golgi.load_positions()[post[:, 0]]
    lines = everything(found)
    assert sorted(lines) == list(range(900))
    for i, line in lines.items():
        np.testing.assert_array_equal([line.point_a, line.point_b], np.array([a[i], b[i]]).astype(np.float32))
    ids = golgi.load_additional("label_id")
    wanted = int(ids[3])
    assert {int(line.id) for line in found.relationships["post"][wanted]} == set(
        np.flatnonzero(post[:, 0] == 3).tolist()
    )
    assert [[int(id) for id in ids] for ids in found.by_id[8].segments] == [
        [int(granule.load_additional("label_id")[pre[8, 0]])], [int(ids[post[8, 0]])],
    ]  # fmt: skip


def test_what_a_view_shows_is_in_the_cells_it_meets(network: NetworkFile, served: VolumeServer) -> None:
    found, positions = reader(served, "cells-granule"), network.placement("granule").load_positions()
    low, high = np.array([-10.0, 5.0, 41.0]), np.array([12.0, 20.0, 55.0])
    inside = np.flatnonzero(((positions >= low) & (positions <= high)).all(axis=1))
    shown = found.get_within_spatial_bounds(lower_bound=low, upper_bound=high)
    assert sorted(int(point.id) for point in shown) == inside.tolist()


def status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


OTHER_PATHS = [
    "", "precomputed", "precomputed/", "precomputed/infos", "zarr3/info", "precomputed/by_id/600",
    "precomputed/by_id/-1", "precomputed/by_id/x", "precomputed/spatial0/0_0", "precomputed/spatial0/0_0_1",
    "precomputed/spatial99/0_0_0", "precomputed/spatial0/0_0_-1", "precomputed/by_nothing/1",
    "precomputed/by_id/99999999999999999999999", "@abc/precomputed/info", "precomputed/by_id/%2e%2e/info",
]  # fmt: skip


def test_other_paths_are_not_found(served: VolumeServer) -> None:
    assert {path: status(f"{served.url}/cells-granule/{path}") for path in OTHER_PATHS} == dict.fromkeys(
        OTHER_PATHS, 404
    )


def test_files_are_known_by_their_tag(served: VolumeServer) -> None:
    url = f"{served.url}/cells-granule/precomputed/info"
    with urllib.request.urlopen(url) as answer:
        tag, body = answer.headers["etag"], json.load(answer)
        assert answer.headers["access-control-allow-origin"] == "*"
    assert body["@type"] == "neuroglancer_annotations_v1"
    assert status(url, **{"if-none-match": tag}) == 304


def test_the_tag_changes_with_the_network(network: NetworkFile) -> None:
    before = cell_annotations(network, "golgi").digest
    assert cell_annotations(network, "golgi").digest == before
    network.placement("golgi").append_data((0, 0, 0), [[1, 1, 1]], additional={})
    assert cell_annotations(network, "golgi").digest != before


@pytest.mark.parametrize("name", ["", "api", "a/b", "raw"])
def test_names_that_cannot_be_served_are_refused(network: NetworkFile, name: str) -> None:
    app = create_app({"raw": array_volume(np.zeros((2, 2, 2), np.uint8))})
    with pytest.raises(ParameterError):
        app.add_folder(name, cell_annotations(network, "golgi"))


def test_cells_without_positions_or_objects_are_no_trouble(tmp_path: Path) -> None:
    network = NetworkFile.create(tmp_path / "net.hdf5")
    network.require_placement("entity").append_entities((0, 0, 0), 3)
    network.require_placement("empty")
    network.require_placement("bare").append_data((0, 0, 0), [[1, 2, 3]])
    bare = network.placement("bare")
    network.require_connectivity("entity", "bare", "from").connect(network.placement("entity"), bare, [0, 1], [0, 0])
    network.require_connectivity("bare", "bare", "own").connect(bare, bare, [0], [0])
    counts = {collection.name: len(collection) for collection in network_annotations(network)}
    assert counts == {
        "cells-entity": 0, "cells-empty": 0, "cells-bare": 1, "connections-from": 0, "connections-own": 1,
    }  # fmt: skip
    for collection in network_annotations(network):
        assert json.loads(collection.file("info") or b"")["relationships"] == []
        assert (collection.file("spatial0/0_0_0") or b"")[:8] == len(collection).to_bytes(8, "little")
    assert connection_annotations(network, "own").file("by_id/0") == np.array([1, 2, 3, 1, 2, 3], "<f4").tobytes()


@pytest.mark.browser
def test_a_point_is_drawn_in_the_middle_of_its_object(tmp_path: Path, chromium: Chromium) -> None:  # noqa: F811
    """Half a voxel off, or axes swapped, would show: voxels are large, of odd sizes, and begin off the origin."""
    labels = np.zeros((12, 16, 20), np.uint8)
    labels[3:6, 9:12, 4:9] = 255
    grid = {"voxel_size_nm": (50, 20.5, 30), "corner_nm": (-475, 1000.25, -60)}
    volume = array_volume(labels, kind="image", **grid)
    extract(array_volume(labels, kind="labels", **grid), tmp_path / "net.hdf5", "cell")
    network = NetworkFile.open(tmp_path / "net.hdf5", "r")
    collection = cell_annotations(network, "cell")
    centre_nm = network.placement("cell").load_positions()[0][::-1] * 1000
    with VolumeServer(create_app({"raw": volume})) as server:
        server.app.add_folder(collection.name, collection)
        viewer = new_viewer()
        layers = [LayerSpec.of_volume(volume, name="raw", url=f"{server.url}/raw/zarr3", display_range=(0, 255))]
        points = AnnotationSpec("cells", f"{server.url}/{collection.name}/precomputed", "#ff0000")
        show(viewer, layers, annotations=[points], position_nm=centre_nm)
        with viewer.txn() as state:
            state.show_axis_lines = False
        page = chromium.page()
        page.open(str(viewer.get_viewer_url()))
        page.wait_until_drawn()
        image, panels, problems = page.screenshot().astype(int), page.panels(), page.problems()
        page.close()
        stop_viewer()
    assert problems == []
    for name, panel in panels.items():
        seen = panel.crop(image)
        y, x = (n // 2 for n in seen.shape[:2])
        seen = seen[y - 120 : y + 120, x - 120 : x + 120]  # without the letters of the axes
        white, red = np.argwhere((seen > 240).all(-1)), np.argwhere((seen[..., 0] > 150) & (seen[..., 1] < 100))
        # The object's box, from its white voxels; the disc, from its red ones.
        middles = [(found.min(axis=0) + found.max(axis=0)) / 2 for found in (white, red)]
        np.testing.assert_allclose(*middles, atol=1.5, err_msg=name)
