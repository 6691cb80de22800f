"""Connectivity sets: connecting, loading, and the faults of the older engine kept out."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest

from chunkloom.network import Chunk, ConnectivitySet, NetworkFile, check
from chunkloom.network.errors import (
    ParameterError,
    RankError,
    SetExistsError,
    SetNotFoundError,
)

CHUNKS = [(0, 0, 0), (-1, 0, 0), (0, 1, 0)]


@pytest.fixture
def links(network: NetworkFile) -> Any:
    """A connectivity set from `pre` (3 chunks of 4 cells) to `post` (3 chunks of 5)."""
    for name, n in (("pre", 4), ("post", 5)):
        cells = network.require_placement(name)
        for chunk in CHUNKS:
            cells.append_data(chunk, np.zeros((n, 3)))
    return network.require_connectivity("pre", "post", "links")


def sides(network: NetworkFile) -> tuple[Any, Any]:
    return network.placement("pre"), network.placement("post")


def rows(*columns: Any) -> Any:
    return np.concatenate([np.asarray(c) for c in columns], axis=1)


def as_pairs(pre: Any, post: Any) -> list[list[int]]:
    return sorted(np.concatenate((pre, post), axis=1).tolist())


def random_links(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    src = np.column_stack((rng.integers(0, 12, n), rng.integers(-1, 9, n), rng.integers(-1, 9, n)))
    dst = np.column_stack((rng.integers(0, 15, n), rng.integers(0, 70000, n), rng.integers(0, 3, n)))
    return src, dst


def test_connections_come_back_with_the_ids_of_cells(network: NetworkFile, links: Any) -> None:
    rng = np.random.default_rng(1)
    pre, post = sides(network)
    given: list[Any] = []
    for step in range(5):
        src, dst = random_links(rng, 200)
        links.connect(pre, post, src, dst)
        given.append(rows(src, dst))
        if step % 2:
            network.close()
    for direction in ("out", "inc"):
        assert as_pairs(*links.load_connections(direction)) == sorted(np.concatenate(given).tolist())
    assert len(links) == 1000
    network.close()
    assert check(network) == []


def test_blocks_hold_ranks_in_their_chunks(network: NetworkFile, links: Any) -> None:
    pre, post = sides(network)
    links.connect(pre, post, [[5, 1, 2], [0, 3, 4]], [[14, -1, -1], [4, 0, 0]])
    local, global_ = links.load_block_connections("out", CHUNKS[1], CHUNKS[2])
    assert (local.tolist(), global_.tolist()) == ([[1, 1, 2]], [[4, -1, -1]])
    local, global_ = links.load_block_connections("inc", CHUNKS[2], CHUNKS[1])
    assert (local.tolist(), global_.tolist()) == ([[4, -1, -1]], [[1, 1, 2]])
    assert links.load_block_connections("inc", CHUNKS[2], CHUNKS[2])[0].shape == (0, 3)
    assert links.load_local_connections("out", (9, 9, 9))[1].shape == (0,)
    assert [c.coordinates for c in links.get_local_chunks("out")] == [CHUNKS[0], CHUNKS[1]]
    assert [c.coordinates for c in links.get_global_chunks("out", CHUNKS[1])] == [CHUNKS[2]]


def test_rows_keep_their_order_within_a_block(network: NetworkFile, links: Any) -> None:
    pre, post = sides(network)
    n = 0
    for _ in range(3):
        for src_chunk in (0, 2, 1):
            points = np.arange(n, n + 10)
            src = np.column_stack((np.full(10, 4 * src_chunk), np.zeros(10, int), points))
            links.connect(pre, post, src, np.zeros(10, int))
            n += 10
    for chunk in CHUNKS:
        local, _ = links.load_block_connections("out", chunk, CHUNKS[0])
        assert len(local) == 30
        assert (np.diff(local[:, 2]) > 0).all()


@pytest.mark.parametrize(
    ("src", "dst"),
    [
        ([0, 12], [0, 0]),
        ([0, -1], [0, 0]),
        ([0, 1], [0, 15]),
        ([0, 1], [0, -7]),
        ([[0, -2, 0]], [0]),
        ([0, 1], [0]),
        ([0.5], [0]),
        ([[0, 1]], [0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("chunks", [None, CHUNKS[:1]], ids=["all chunks", "one source chunk"])
def test_cells_that_are_not_there_cannot_be_connected(
    network: NetworkFile, links: Any, src: Any, dst: Any, chunks: Any
) -> None:
    pre, post = network.placement("pre", chunks=chunks), network.placement("post")
    with pytest.raises((RankError, ParameterError)):
        links.connect(pre, post, src, dst)
    assert len(links) == 0
    assert links.load_connections()[0].shape == (0, 3)


def test_ranks_count_what_the_filters_leave_and_nothing_is_changed(network: NetworkFile, links: Any) -> None:
    pre, post = sides(network)
    pre.label(["x"], [1, 6, 11])
    pre.set_label_filter(["x"])
    post.set_chunk_filter(CHUNKS[1:])
    src, dst = np.array([[0, 1, 1], [2, 2, 2]]), np.array([0, 9])
    before = src.copy(), dst.copy()
    links.connect(pre, post, src, dst)
    found = links.load_connections()
    assert [found[0].tolist(), found[1].tolist()] == [[[1, 1, 1], [11, 2, 2]], [[5, -1, -1], [14, -1, -1]]]
    assert all(np.array_equal(a, b) for a, b in zip((src, dst), before, strict=True))
    with pytest.raises(RankError):
        links.connect(pre, post, [3], [0])
    assert pre.get_label_filter() == ["x"]


def test_nothing_to_connect_is_nothing(network: NetworkFile, links: Any) -> None:
    links.connect(*sides(network), [], [])
    assert (len(links), links.get_local_chunks("inc"), links.get_chunk_stats()) == (0, [], {})


def test_sets_of_other_types_are_refused(network: NetworkFile, links: Any) -> None:
    pre, post = sides(network)
    with pytest.raises(ParameterError, match="presynaptic cells are 'pre'"):
        links.connect(post, pre, [0], [0])


def test_chunks_connect_by_ranks_in_them(network: NetworkFile, links: Any) -> None:
    links.chunk_connect(CHUNKS[2], CHUNKS[0], [[3, 1, 1]], [[4, -1, -1]])
    assert [part.tolist() for part in links.load_connections()] == [[[11, 1, 1]], [[4, -1, -1]]]
    for src, dst in (([4], [0]), ([0], [5]), ([-1], [0])):
        with pytest.raises(RankError):
            links.chunk_connect(CHUNKS[2], CHUNKS[0], src, dst)


def test_statistics_count_both_ends(network: NetworkFile, links: Any) -> None:
    links.connect(*sides(network), [0, 1, 4], [0, 5, 5])
    assert links.get_chunk_stats() == {0: {"inc": 1, "out": 2}, 65535: {"inc": 2, "out": 1}}
    assert network.get_chunk_stats()[65535] == {"placed": 9, "connections": {"inc": 2, "out": 1}}
    network.clear_connectivity()
    assert (len(links), network.connectivity_tags()) == (0, ["links"])
    assert network.get_chunk_stats()[65535] == {"placed": 9, "connections": {"inc": 0, "out": 0}}


def test_iterators_yield_every_block_once(network: NetworkFile, links: Any) -> None:
    links.connect(*sides(network), *random_links(np.random.default_rng(2), 300))
    flat = [(d, a, b, x.tolist()) for d, a, b, (x, _) in links.flat_iter_connections()]
    nested = [
        (d, a, b, x.tolist())
        for d, locals_ in links.nested_iter_connections()
        for a, globals_ in locals_
        for b, (x, _) in globals_
    ]
    assert flat == nested
    assert [f[0] for f in flat] == ["inc"] * 9 + ["out"] * 9
    pinned = list(links.flat_iter_connections("out", CHUNKS[1], [CHUNKS[0], CHUNKS[2]]))
    assert [(d, a.coordinates, b.coordinates) for d, a, b, _ in pinned] == [
        ("out", CHUNKS[1], CHUNKS[0]),
        ("out", CHUNKS[1], CHUNKS[2]),
    ]
    one = links.nested_iter_connections("out", CHUNKS[1], CHUNKS[0])
    assert one[0].tolist() == pinned[0][3][0].tolist()


def test_connections_can_be_narrowed_to_chunks(network: NetworkFile, links: Any) -> None:
    src, dst = random_links(np.random.default_rng(3), 300)
    links.connect(*sides(network), src, dst)
    found = links.load_connections("inc", pre_chunks=[CHUNKS[0], CHUNKS[2]], post_chunks=[CHUNKS[1]])
    keep = ((src[:, 0] < 4) | (src[:, 0] >= 8)) & (dst[:, 0] >= 5) & (dst[:, 0] < 10)
    assert as_pairs(*found) == sorted(rows(src, dst)[keep].tolist())


def test_sets_are_made_found_and_removed(network: NetworkFile, links: Any) -> None:
    assert network.require_connectivity("pre", "post", "links") == links
    with pytest.raises(SetExistsError, match="connects 'pre' to 'post'"):
        network.require_connectivity("post", "pre", "links")
    with pytest.raises(SetExistsError):
        ConnectivitySet.create(network, "pre", "post", "links")
    with pytest.raises(SetNotFoundError, match="it has: links"):
        network.connectivity("other")
    links.remove()
    assert not ConnectivitySet.exists(network, "links")
    with pytest.raises(SetNotFoundError, match="removed"):
        len(links)


@pytest.mark.parametrize("format", ["ours", pytest.param("of the older engine", marks=pytest.mark.long)])
def test_a_chunk_may_connect_to_more_than_ten_thousand_others(tmp_path: Any, format: str) -> None:
    count = 11_500
    ids = np.arange(count)
    coordinates = np.column_stack((ids % 100, ids // 100 % 100, ids // 10_000))
    path = tmp_path / "wide.hdf5"
    network = NetworkFile.create(path)
    network.require_placement("hub").append_data((0, 0, 0), np.zeros((1, 3)))
    many = network.require_placement("many")
    with network.write_scope():
        for c in coordinates:
            many.append_data(c, count=1)
    links = network.require_connectivity("hub", "many", "links")
    first = 5000 if format == "of the older engine" else count
    links.connect(network.placement("hub"), many, np.zeros(first, int), np.arange(first))
    network.close()
    if first < count:  # an object header as old files have it, which breaks at 64 KiB
        with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
            old, parent = file["connectivity/links/out/0"], file["connectivity/links/out"]
            new = parent.create_group("new")
            for name in old:
                new[name] = old[name]
            for name, value in old.attrs.items():
                new.attrs[name] = value
            del parent["0"]
            parent.move("new", "0")
    links.connect(network.placement("hub"), many, np.zeros(count - first, int), np.arange(first, count))
    network.close()
    assert len(links.get_global_chunks("out", (0, 0, 0))) == count
    _, post = links.load_connections()
    assert sorted(post[:, 0].tolist()) == list(range(count))
    with h5py.File(path) as file:
        assert file["connectivity/links/out/0"].attrs["chunk_list"].shape == (count, 3)


def test_blocks_are_where_their_attributes_say(network: NetworkFile, links: Any) -> None:
    pre, post = sides(network)
    links.connect(pre, post, [0, 1, 4, 8], [0, 1, 2, 3])
    network.close()
    links.connect(pre, post, [2, 9], [0, 0])  # the first block grows in the middle
    network.close()
    with h5py.File(network.path) as file:
        group = file["connectivity/links/inc/0"]
        order = [Chunk(c).id for c in group.attrs["chunk_list"].tolist()]
        starts = [int(group.attrs[str(c)]) for c in order]
        assert (order, starts) == ([0, 65535, 65536], [0, 3, 4])
        assert group["global_locs"][:, 0].tolist() == [0, 1, 2, 0, 0, 1]


def test_connections_of_some_chunks_can_be_cleared(network: NetworkFile, links: Any) -> None:
    src, dst = random_links(np.random.default_rng(4), 300)
    links.connect(*sides(network), src, dst)
    network.close()
    links.clear(chunks=[CHUNKS[1], (7, 7, 7)])
    keep = ((src[:, 0] < 4) | (src[:, 0] >= 8)) & ((dst[:, 0] < 5) | (dst[:, 0] >= 10))
    for _ in range(2):
        for direction in ("out", "inc"):
            assert as_pairs(*links.load_connections(direction)) == sorted(rows(src, dst)[keep].tolist())
        assert len(links) == keep.sum()
        assert check(network) == []
        network.close()
    links.connect(*sides(network), src[:50], dst[:50])
    network.close()
    assert (len(links), check(network)) == (keep.sum() + 50, [])


def test_connecting_chunks_sets_and_checks_the_chunk_size(tmp_path: Any) -> None:
    network = NetworkFile.create(tmp_path / "net.hdf5")
    network.require_placement("pre").append_data((0, 0, 0), np.zeros((2, 3)))
    links = network.require_connectivity("pre", "pre", "links")
    links.chunk_connect((0, 0, 0), (0, 0, 0), [0], [1])
    assert network.chunk_size is None
    links.chunk_connect(Chunk((0, 0, 0), (5, 5, 5)), (0, 0, 0), [0], [1])
    assert network.chunk_size == (5, 5, 5)
    network.close()
    for pre, post in (((6, 5, 5), None), (None, (6, 5, 5))):
        with pytest.raises(ParameterError, match="one chunk size"):
            links.chunk_connect(Chunk((0, 0, 0), pre), Chunk((0, 0, 0), post), [0], [1])
    assert (len(links), network.chunk_size) == (2, (5, 5, 5))
