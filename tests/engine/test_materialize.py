"""What a materialize writes, told from the whole array and read back by other readers."""

from __future__ import annotations

import itertools
import json
import threading

import numpy as np
import pytest

from chunkloom import Pipeline, Volume, array_volume, materialize, open_volume, ops
from chunkloom.engine.materialize import plan_materialize
from chunkloom.errors import CancelledWorkError, ChunkError, ChunkloomError, ConflictError, ParameterError
from chunkloom.geometry import Box

BOX = ((3, 30), (5, 44), (2, 39))
INSIDE = (..., slice(3, 30), slice(5, 44), slice(2, 39))


def whole(dtype="uint8", shape=(37, 50, 41), seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 5, shape).astype(dtype)
    return rng.integers(1, 200, shape).astype(dtype)


def volume(dtype="uint8", shape=(37, 50, 41), **more):
    options = {"voxel_size_nm": (8, 4.5, 3.24), "corner_nm": (-4, 10, 0), "chunk": (16, 16, 16)} | more
    return array_volume(whole(dtype, shape), **options)


class Counted(Volume):
    """Another volume, with what is asked of it written down, and failures where they are wished for."""

    def __init__(self, source, fails=(), wait=None):
        self.source, self.fails, self.wait = source, set(fails), wait
        self.levels, self.kind = source.levels, source.kind
        self.asked = []

    @property
    def stage_digest(self):
        return self.source.stage_digest

    def read_box(self, level, box, work):
        index = tuple(b // c for b, c in zip(box.lo, self.levels[level].spatial_chunk, strict=True))
        self.asked.append(index)
        if index in self.fails:
            raise RuntimeError("the sensor was off")
        if self.wait is not None:
            self.wait(index, work)
        return self.source.read_box(level, box, work)


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def chunk_files(folder):
    return {
        k: v for k, v in files(folder).items() if k.startswith(("0/", "s0/")) and not k.endswith(("json", ".zarray"))
    }


def by_zarr_python(path, word):
    import zarr

    return np.asarray(zarr.open_array(str(path / "0"), mode="r")[...])


def by_tensorstore(path, word):
    import tensorstore as ts

    kvstore = {
        "driver": "file",
        "path": f"{path}/" if word == "precomputed" else f"{path}/{'s0' if word == 'n5' else 0}/",
    }
    driver = {"zarr2": "zarr", "zarr3": "zarr3", "n5": "n5", "precomputed": "neuroglancer_precomputed"}[word]
    array = ts.open({"driver": driver, "kvstore": kvstore}, open=True).result().read().result()
    if word == "precomputed":
        array = array.transpose()
        return array[0] if array.shape[0] == 1 else array
    return array.transpose() if word == "n5" else array


READERS = [("zarr2", by_zarr_python), ("zarr3", by_zarr_python)]
READERS += [(word, by_tensorstore) for word in ("zarr2", "zarr3", "n5", "precomputed")]


@pytest.mark.parametrize(("word", "read"), READERS, ids=lambda v: v if isinstance(v, str) else v.__name__)
@pytest.mark.parametrize("codec", ["none", "zstd", "blosc", "gzip"])
@pytest.mark.parametrize("channels", [(), (2,)], ids=["plain", "channels"])
def test_a_box_is_read_back_equal(word, read, codec, channels, tmp_path):
    if word == "precomputed" and codec != "none":
        pytest.skip("precomputed is written raw")
    shape = (*channels, 37, 50, 41)
    made = volume("float32", shape)
    materialize(made, tmp_path / "a", box=BOX, format=word, codec=codec)
    np.testing.assert_array_equal(read(tmp_path / "a", word), whole("float32", shape)[INSIDE])
    again = open_volume(f"{word}://{tmp_path}/a")
    np.testing.assert_array_equal(again.read(), whole("float32", shape)[INSIDE])
    grid = made.levels[0].grid.moved((3, 5, 2))
    assert again.levels[0].voxel_size_nm == pytest.approx(grid.voxel_size_nm)
    assert again.levels[0].grid.corner_nm == pytest.approx(grid.corner_nm)


@pytest.mark.parametrize("word", ["zarr2", "zarr3", "n5", "precomputed"])
def test_the_whole_level_is_the_same_store_by_box_and_by_level(word, tmp_path):
    for name, options in {
        "none": {},
        "exact": {"box": Box.of_shape((37, 50, 41))},
        "past": {"box": ((-3, 99), (-3, 99), (-3, 99))},
        "level": {"extent": "level"},
    }.items():
        materialize(volume(), tmp_path / name, format=word, name="v", **options)
    first = files(tmp_path / "none")
    assert len(first) > 10
    for name in ("exact", "past", "level"):
        assert files(tmp_path / name) == first


def test_each_served_chunk_is_asked_for_once_in_the_order_of_the_walk(tmp_path):
    counted = Counted(volume())
    reports = []
    materialize(counted, tmp_path / "a", box=BOX, concurrency=1, progress=reports.append)
    # Split on all axes, in 2 x 3 x 3 chunks: the axes with the most come first, in C order among equals.
    expected = [(z, y, x) for y, x, z in itertools.product(range(3), range(3), range(2))]
    assert counted.asked == expected
    assert len(reports) == 1 + len(expected)
    assert [r.computed for r in reports] == list(range(len(expected) + 1))
    for name in ("done", "written", "bytes", "computed"):
        values = [getattr(r, name) for r in reports]
        assert values == sorted(values)
    assert (reports[-1].done, reports[-1].total, reports[-1].needed) == (18, 18, 18)


def test_with_threads_every_count_only_grows(tmp_path):
    reports = []
    counted = Counted(volume())
    materialize(counted, tmp_path / "a", box=BOX, concurrency=4, progress=reports.append)
    assert len(counted.asked) == len(set(counted.asked)) == 18
    for name in ("done", "written", "bytes", "computed", "files"):
        values = [getattr(r, name) for r in reports]
        assert values == sorted(values)


def test_chunks_of_the_fill_value_are_left_out_unless_kept(tmp_path):
    data = np.zeros((37, 50, 41), np.uint8)
    data[20:22, 30:40, 20:22] = 7
    made = array_volume(data, chunk=(16, 16, 16))
    done = materialize(made, tmp_path / "a", box=BOX, codec="none")
    kept = materialize(made, tmp_path / "b", box=BOX, codec="none", skip_empty=False)
    assert (done.done, kept.done) == (18, 18)
    assert done.written == len(chunk_files(tmp_path / "a")) == 2
    assert done.skipped == 16
    assert kept.written == len(chunk_files(tmp_path / "b")) == 18
    for folder in ("a", "b"):
        np.testing.assert_array_equal(by_zarr_python(tmp_path / folder, "zarr3"), data[INSIDE])


def test_a_failure_names_the_chunk_and_leaves_an_unfinished_store(tmp_path):
    counted = Counted(volume(), fails=[(0, 1, 1)])
    with pytest.raises(ChunkError, match=r"^chunk a/0/0\.1\.1: the sensor was off$"):
        materialize(counted, tmp_path / "a.zarr", box=BOX, concurrency=1)
    attributes = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())["attributes"]
    assert list(attributes)[-1] == "chunkloom_unfinished"
    assert counted.asked.index((0, 1, 1)) == len(counted.asked) - 1


@pytest.mark.parametrize("word", ["zarr2", "zarr3", "n5", "precomputed"])
def test_an_unfinished_store_is_opened_with_a_warning(word, tmp_path):
    with pytest.raises(ChunkError):
        materialize(Counted(volume(), fails=[(0, 1, 1)]), tmp_path / "a", box=BOX, concurrency=1, format=word)
    assert any("unfinished" in text for text in open_volume(f"{word}://{tmp_path / 'a'}").warnings)
    materialize(Counted(volume()), tmp_path / "a", box=BOX, concurrency=1, format=word)
    assert not any("unfinished" in text for text in open_volume(f"{word}://{tmp_path / 'a'}").warnings)


@pytest.mark.parametrize("where", ["a", "a/0", "a/0/sub", "."])
def test_a_target_that_is_read_from_is_refused_even_to_overwrite(where, tmp_path):
    materialize(volume(), tmp_path / "a")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    smooth = Pipeline(open_volume(tmp_path / "a"), [ops.Gaussian(sigma=1.0)])
    with pytest.raises(ConflictError, match="is read from"):
        materialize(smooth, tmp_path / where, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_failure_by_level_names_the_chunk_of_the_store(tmp_path):
    counted = Counted(volume(shape=(2, 37, 50, 41)), fails=[(0, 0, 1)])
    with pytest.raises(ChunkError, match=r"^chunk 0/0/0/0/1 of v: the sensor was off$"):
        materialize(counted, tmp_path / "a.zarr", extent="level", concurrency=1, name="v")


def test_a_chunk_of_the_wrong_shape_is_refused(tmp_path):
    class Short(Counted):
        def read_box(self, level, box, work):
            return super().read_box(level, box, work)[1:]

    with pytest.raises(ChunkError, match=r"uint8 of shape \(15, 16, 16\) came, expected uint8 of shape \(16, 16, 16\)"):
        materialize(Short(volume()), tmp_path / "a", box=BOX)


def test_a_failure_can_be_repaired_and_gone_on_with(tmp_path):
    with pytest.raises(ChunkError):
        materialize(Counted(volume(), fails=[(1, 2, 1)]), tmp_path / "a", box=BOX, concurrency=1)
    counted = Counted(volume())
    materialize(counted, tmp_path / "a", box=BOX)
    materialize(volume(), tmp_path / "b", box=BOX, name="a")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(counted.asked) < 18
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_after_a_cancel_nothing_is_asked_for_or_written(tmp_path):
    cancel = threading.Event()

    def wait(index, work):
        if len(counted.asked) == 14:
            cancel.set()

    counted = Counted(volume(), wait=wait)
    with pytest.raises(CancelledWorkError, match="the same call goes on from them"):
        materialize(counted, tmp_path / "a", box=BOX, concurrency=1, cancel=cancel)
    assert len(counted.asked) == 14
    before = files(tmp_path / "a")
    assert 0 < len(before) - 2 < 18
    materialize(volume(), tmp_path / "a", box=BOX)
    materialize(volume(), tmp_path / "b", box=BOX, name="a")
    after = files(tmp_path / "a")
    assert after == files(tmp_path / "b")
    assert {k: after[k] for k in before if k.startswith("0/")} == {
        k: v for k, v in before.items() if k.startswith("0/")
    }


def test_a_cancelled_computation_stops_at_its_next_check(tmp_path):
    cancel = threading.Event()

    def wait(index, work):
        cancel.set()
        work.check()
        raise AssertionError("went on")

    with pytest.raises(CancelledWorkError, match="was stopped: 0 of 18"):
        materialize(Counted(volume(), wait=wait), tmp_path / "a", box=BOX, cancel=cancel)


def stored(tmp_path, shape=(37, 50, 41), empty=None):
    """A zarr v2 volume, packed with zstd, written by zarr-python, and its folder."""
    import zarr

    data = whole(shape=shape)
    if empty is not None:
        data[empty] = 0
    array = zarr.create_array(
        str(tmp_path / "source"),
        shape=shape,
        chunks=(16, 16, 16),
        dtype="u1",
        zarr_format=2,
        config={"write_empty_chunks": True},
    )
    array[...] = data
    return open_volume(tmp_path / "source"), data


@pytest.mark.parametrize("target", ["zarr2", "zarr3"])
@pytest.mark.parametrize("extent", ["box", "level"])
def test_stored_chunks_pass_through_untouched(target, extent, tmp_path):
    source, data = stored(tmp_path)
    materialize(source, tmp_path / "a", format=target, codec="zstd", extent=extent)
    separator = "0/" if target == "zarr2" else "0/c/"
    for index in itertools.product(range(3), range(4), range(3)):
        key = "/".join(map(str, index))
        original = (tmp_path / "source" / key.replace("/", ".")).read_bytes()
        assert (tmp_path / "a" / (separator + key)).read_bytes() == original
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "a", target), data)


def test_a_box_on_chunk_edges_passes_through_and_a_cropped_end_does_not(tmp_path):
    source, data = stored(tmp_path)
    materialize(source, tmp_path / "a", format="zarr2", box=((16, 37), (16, 45), (0, 32)))
    assert (tmp_path / "a/0/1/0/1").read_bytes() == (tmp_path / "source/2.1.1").read_bytes()
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "a", "zarr2"), data[16:37, 16:45, 0:32])
    import numcodecs

    raw = numcodecs.Zstd().decode((tmp_path / "a/0/0/1/0").read_bytes())
    padded = np.frombuffer(raw, np.uint8).reshape(16, 16, 16)
    assert padded[:, :13].all()
    assert not padded[:, 13:].any()


def test_stored_chunks_of_zeros_are_left_out_when_passed_on(tmp_path):
    source, data = stored(tmp_path, empty=(slice(0, 16), slice(0, 16), slice(0, 32)))
    assert (tmp_path / "source" / "0.0.1").exists()
    done = materialize(source, tmp_path / "a", codec="zstd")
    assert (done.written, done.skipped) == (34, 2)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "a", "zarr3"), data)
    assert materialize(source, tmp_path / "b", codec="zstd", skip_empty=False).written == 36


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("read", [by_zarr_python, by_tensorstore], ids=lambda f: f.__name__)
def test_shards_are_read_back_equal(codec, read, tmp_path):
    data = whole("uint16")
    data[:16] = 0
    made = array_volume(data, chunk=(16, 16, 16))
    reports = []
    done = materialize(
        made, tmp_path / "a", box=BOX, codec=codec, chunk=(8, 8, 8), shard=(16, 32, 16), progress=reports.append
    )
    np.testing.assert_array_equal(read(tmp_path / "a", "zarr3"), data[INSIDE])
    assert done.done == reports[-1].total == 4 * 5 * 5
    assert reports[-1].files == len(chunk_files(tmp_path / "a")) == 2 * 2 * 3
    assert done.skipped > 0


def test_another_chunk_shape_than_the_volume_is_read_back_equal(tmp_path):
    counted = Counted(volume())
    done = materialize(counted, tmp_path / "a", box=BOX, chunk=(10, 7, 33), codec="none")
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "a", "zarr3"), whole()[INSIDE])
    assert done.chunk == (10, 7, 33)
    assert len(counted.asked) == len(set(counted.asked)) == 18


def pooled(data, factor, kind):
    """Each box of `factor` voxels by itself: the mean, rounded half to even, or the most frequent value."""
    shape = tuple(-(-n // f) for n, f in zip(data.shape, factor, strict=True))
    out = np.empty(shape, data.dtype)
    for index in itertools.product(*map(range, shape)):
        part = data[tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factor, strict=True))]
        values, counts = np.unique(part, return_counts=True)
        out[index] = np.rint(part.astype(float).mean()) if kind == "image" else values[counts.argmax()]
    return out


@pytest.mark.parametrize("kind", ["image", "labels"])
@pytest.mark.parametrize("word", ["zarr2", "zarr3", "n5", "precomputed"])
def test_a_pyramid_is_right_to_its_edges(kind, word, tmp_path):
    data = np.random.default_rng(1).integers(0, 5, (37, 50, 41)).astype(np.uint8)
    made = array_volume(data, chunk=(16, 16, 16), voxel_size_nm=(8, 4, 4), kind=kind)
    materialize(made, tmp_path / "a", box=BOX, pyramid=2, format=word)
    again = open_volume(f"{word}://{tmp_path}/a")
    fine = data[INSIDE]
    middle = pooled(fine, (1, 2, 2), kind)
    np.testing.assert_array_equal(again.read(level=0), fine)
    np.testing.assert_array_equal(again.read(level=1), middle)
    np.testing.assert_array_equal(again.read(level=2), pooled(middle, (2, 2, 2), kind))
    assert [level.voxel_size_nm for level in again.levels] == [(8, 4, 4), (8, 8, 8), (16, 16, 16)]
    assert all(level.grid.corner_nm == again.levels[0].grid.corner_nm for level in again.levels)


def test_several_levels_cover_the_box(tmp_path):
    made = Pipeline(volume())
    materialize(made, tmp_path / "a", box=BOX, levels=[0, 1])
    again = open_volume(tmp_path / "a")
    assert again.levels[0].shape == (27, 39, 37)
    fine, coarse = made.levels[0], made.levels[1]
    covered = coarse.grid.world_to_covering_box(fine.grid.box_to_world(Box((3, 5, 2), (30, 44, 39))))
    np.testing.assert_array_equal(again.read(level=1), made.read(covered, level=1))
    assert again.levels[1].grid.corner_nm == pytest.approx(coarse.grid.moved(covered.lo).corner_nm)


def test_metadata_is_strict_json_and_not_a_number_is_text(shared, tmp_path):
    case = shared / "cases" / "materialize-strict-json"
    told = json.loads((case / "expected.json").read_text())
    data = np.load(case / "source.npy")
    made = array_volume(data, chunk=tuple(told["task"]["chunks"]))
    for codec in ("none", "zstd"):
        materialize(made, tmp_path / codec, format="zarr2", codec=codec, fill_value=told["task"]["fill_value"])

        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        text = (tmp_path / codec / "0/.zarray").read_text()
        assert json.loads(text, parse_constant=refuse)["fill_value"] == "NaN"
        np.testing.assert_array_equal(by_zarr_python(tmp_path / codec, "zarr2"), data)
        np.testing.assert_array_equal(by_tensorstore(tmp_path / codec, "zarr2"), data)
    for chunk in chunk_files(tmp_path / "none").values():
        assert len(chunk) == 2 * 4 * 4 * 4


@pytest.mark.parametrize(
    ("fill", "dtype", "text"),
    [(float("nan"), "float32", '"NaN"'), (float("-inf"), "float64", '"-Infinity"'), (7, "uint8", "7")],
    ids=["nan", "infinity", "seven"],
)
@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
def test_chunks_of_another_fill_value_are_left_out_and_read_back(fill, dtype, text, word, tmp_path):
    data = whole(dtype)
    data[:20, :20, :20] = fill
    done = materialize(array_volume(data, chunk=(16, 16, 16)), tmp_path / "a", format=word, fill_value=fill)
    assert done.skipped == 1
    name = "0/.zarray" if word == "zarr2" else "0/zarr.json"
    assert f'"fill_value": {text},' in (tmp_path / "a" / name).read_text()
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "a", word), data)


REFUSED = {
    "format": ({"format": "tiff"}, "unknown format 'tiff'"),
    "codec": ({"codec": "lzma"}, "unknown codec 'lzma'"),
    "codec of precomputed": ({"format": "precomputed", "codec": "zstd"}, "precomputed is written raw"),
    "extent": ({"extent": "all"}, "extent is 'all'"),
    "level": ({"levels": [3]}, "no level 3"),
    "no level": ({"levels": []}, "levels is empty"),
    "box": ({"box": ((50, 60), (0, 1), (0, 1))}, "outside the level or empty"),
    "shard": ({"shard": (20, 20, 20)}, "expected a multiple of the chunk"),
    "shard of zarr2": ({"format": "zarr2", "shard": (32, 32, 32)}, "zarr2 has no shards"),
    "fill value": ({"fill_value": 300}, "uint8 does not hold it"),
    "fill value of n5": ({"format": "n5", "fill_value": 3}, "n5 knows no fill value but 0"),
    "fill value text": ({"fill_value": "nan"}, "fill_value is 'nan'"),
    "attribute": ({"attributes": {"ome": 1}}, "'ome' is the store's own"),
    "attribute not JSON": ({"attributes": {"a": [1, float("nan")]}}, r"attributes\.a\[1\] is nan"),
    "memory": ({"memory_limit": 1000}, "memory_limit is 1000 bytes"),
    "concurrency": ({"concurrency": 0}, "concurrency is 0"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_options_that_do_not_fit_are_refused_before_anything_is_touched(options, message, tmp_path):
    with pytest.raises(ChunkloomError, match=message):
        materialize(volume(), tmp_path / "a", **options)
    assert not list(tmp_path.iterdir())


def test_a_finished_store_is_not_replaced_unless_asked(tmp_path):
    materialize(volume(), tmp_path / "a", box=BOX)
    before = files(tmp_path / "a")
    with pytest.raises(ConflictError, match="overwrite"):
        materialize(Pipeline(volume(), [ops.Invert()]), tmp_path / "a", box=BOX)
    assert files(tmp_path / "a") == before


def test_overwriting_leaves_no_old_chunk_behind(tmp_path):
    materialize(volume(), tmp_path / "a")
    materialize(volume(), tmp_path / "a", box=((0, 5), (0, 5), (0, 5)), overwrite=True)
    assert list(chunk_files(tmp_path / "a")) == ["0/c/0/0/0"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_overwriting_does_not_remove_what_is_no_store(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ConflictError, match=r"holds (files that are no store|something already)"):
            materialize(volume(), tmp_path / "a", overwrite=overwrite)
    assert (tmp_path / "a" / "thesis.tex").exists()


def test_the_same_run_on_its_finished_store_computes_nothing(tmp_path):
    first = materialize(volume(), tmp_path / "a", box=BOX)
    if open_target_note(tmp_path / "a") is None:
        pytest.skip("this file system keeps no attributes")
    counted = Counted(volume())
    again = materialize(counted, tmp_path / "a", box=BOX)
    assert counted.asked == []
    assert (again.done, again.written, again.bytes) == (first.done, first.written, first.bytes)


def open_target_note(path):
    from chunkloom.engine.writing.target import LocalTarget

    return LocalTarget(str(path)).recall()


def interrupted(target, made=None, **options):
    """A run that stopped half way."""
    with pytest.raises(ChunkError):
        materialize(Counted(made or volume(), fails=[(1, 2, 1)]), target, concurrency=1, **options)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: (Pipeline(volume(), [ops.Invert()]), {"box": BOX}), "an unfinished store of another volume"),
        (lambda: (volume(), {"box": BOX, "skip_empty": False}), "the same volume with other options"),
        (lambda: (volume(), {"box": ((3, 29), *BOX[1:])}), "the same volume and another box"),
    ],
    ids=["volume", "options", "box"],
)
def test_an_unfinished_store_of_another_run_is_refused_by_name(other, message, tmp_path):
    interrupted(tmp_path / "a", box=BOX)
    made, options = other()
    with pytest.raises(ConflictError, match=message):
        materialize(made, tmp_path / "a", **options)
    materialize(made, tmp_path / "a", overwrite=True, **options)
    materialize(made, tmp_path / "b", name="a", **options)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_without_resume_an_unfinished_run_begins_anew(tmp_path):
    interrupted(tmp_path / "a", box=BOX)
    counted = Counted(volume())
    materialize(counted, tmp_path / "a", box=BOX, resume=False)
    assert len(counted.asked) == 18


def test_what_is_gone_is_written_again_on_resume(tmp_path):
    interrupted(tmp_path / "a", box=BOX)
    done = sorted(chunk_files(tmp_path / "a"))
    (tmp_path / "a" / done[0]).unlink()
    (tmp_path / "a" / done[1]).write_bytes(b"")
    materialize(volume(), tmp_path / "a", box=BOX)
    materialize(volume(), tmp_path / "b", box=BOX, name="a")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_several_boxes_by_level_share_a_store_finished_or_not(tmp_path):
    first, second = ((0, 16), (0, 50), (0, 41)), ((16, 37), (0, 50), (0, 41))
    interrupted(tmp_path / "a", box=second, extent="level")
    materialize(volume(), tmp_path / "a", box=first, extent="level")
    attributes = json.loads((tmp_path / "a/zarr.json").read_text())["attributes"]
    assert list(attributes["chunkloom_unfinished"].values()) == ["16:37,0:50,0:41"]
    counted = Counted(volume())
    materialize(counted, tmp_path / "a", box=second, extent="level")
    assert len(counted.asked) < 24
    materialize(volume(), tmp_path / "b", extent="level", name="a")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    with pytest.raises(ConflictError):
        materialize(Pipeline(volume(), [ops.Invert()]), tmp_path / "a", box=first, extent="level")


def test_two_live_runs_on_one_store_are_not_allowed(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    def wait(index, work):
        begun.set()
        assert go_on.wait(30)

    thread = threading.Thread(target=materialize, args=(Counted(volume(), wait=wait), tmp_path / "a"))
    thread.start()
    try:
        assert begun.wait(30)
        with pytest.raises(ConflictError, match="is being written by another run"):
            materialize(volume(), tmp_path / "a")
        with pytest.raises(ConflictError, match="is being written by another run"):
            materialize(volume(), tmp_path / "a", overwrite=True)
    finally:
        go_on.set()
        thread.join()
    np.testing.assert_array_equal(open_volume(tmp_path / "a").read(), whole())


def test_the_source_does_not_show_in_the_metadata(tmp_path):
    secret = tmp_path / "patient-1234"
    secret.mkdir()
    source, _ = stored(secret)
    materialize(source, tmp_path / "a", box=BOX)
    for text in files(tmp_path / "a").values():
        assert b"patient" not in text


def test_the_plan_says_what_a_run_then_does(tmp_path):
    plan = plan_materialize(volume(), tmp_path / "a", box=BOX)
    assert not list(tmp_path.iterdir())
    ((path, _, array),) = plan.arrays
    assert (path, array.needed, array.total) == ("0", 18, 18)
    assert any("18 chunks to compute, 18 to write" in line for line in plan.lines())


def test_a_target_that_is_a_file_or_a_web_address_is_refused(tmp_path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(ConflictError, match="is a file"):
        materialize(volume(), tmp_path / "a")
    with pytest.raises(ParameterError, match="nothing is written over http"):
        materialize(volume(), "http://127.0.0.1/a")


def test_objects_joined_over_chunks_are_written_with_one_id_each(tmp_path):
    import scipy.ndimage

    rng = np.random.default_rng(3)
    data = (scipy.ndimage.gaussian_filter(rng.normal(size=(37, 50, 41)), 2) > 0.03).astype(np.uint8) * 255
    made = Pipeline(array_volume(data, chunk=(16, 16, 16)), [ops.Threshold(low=120), ops.ConnectedComponents()])
    reports = []
    materialize(made, tmp_path / "a", box=BOX, progress=reports.append)
    found = by_zarr_python(tmp_path / "a", "zarr3")
    expected, _ = scipy.ndimage.label(data, scipy.ndimage.generate_binary_structure(3, 1))
    # The same objects, cut out of the chunks that the box touches.
    assert np.array_equal(found == 0, data[INSIDE] == 0)
    pairs = np.unique(np.stack([found.ravel(), expected[INSIDE].ravel().astype(np.uint64)]), axis=1)
    assert len(np.unique(pairs[0])) == pairs.shape[1] == len(np.unique(expected[INSIDE]))
    assert reports[-1].computed == reports[-1].needed == 36
    with pytest.raises(ParameterError, match="joined over chunks"):
        materialize(made, tmp_path / "b", levels=[1])
