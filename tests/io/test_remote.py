"""Reading over HTTP: equal to local reading, and never fill where an answer failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorstore as ts
import tifffile
import zarr

from chunkloom.errors import AccessError, ChunkloomError, ChunkReadError, FormatError, VolumeNotFoundError
from chunkloom.geometry import Box
from chunkloom.io import list_levels, multiscales_attrs, open_levels, read_array_meta, remote

from .servers import FolderServer

DATA = (np.arange(9 * 20 * 21).reshape(9, 20, 21) * 31 % 60013).astype("u2")


def write(root: Path, kind: str) -> str:
    """The same array in one of the formats; gives its path below `root`."""
    if kind in ("zarr2", "zarr3", "zarr3-sharded", "zarr2-filter"):
        options: dict[str, Any] = {"zarr_format": 2 if kind.startswith("zarr2") else 3}
        if kind == "zarr3-sharded":
            options["shards"] = (8, 16, 16)
        if kind == "zarr2-filter":
            import numcodecs

            options["filters"] = [numcodecs.Delta("u2")]
        array = zarr.create_array(root / "a b#c%d.zarr", shape=DATA.shape, chunks=(4, 8, 8), dtype="u2", **options)
        array[...] = DATA
        return "a b#c%d.zarr"
    if kind in ("n5", "neuroglancer_precomputed", "ts-zarr", "ts-zarr3"):
        driver = kind.removeprefix("ts-")
        spec: dict[str, Any] = {"driver": driver, "kvstore": {"driver": "file", "path": f"{root}/a {kind}/"}}
        data = DATA
        if driver == "n5":
            spec["metadata"] = {"blockSize": [8, 8, 4], "compression": {"type": "gzip"}}
            data = DATA.T
        if driver == "neuroglancer_precomputed":
            spec["scale_metadata"] = {"resolution": [4, 4, 40], "encoding": "raw", "chunk_size": [8, 8, 4]}
            spec["multiscale_metadata"] = {"type": "image"}
            data = DATA.T[..., np.newaxis]
        ts.open(spec, create=True, dtype=ts.uint16, shape=data.shape).result().write(data).result()
        return f"a {kind}"
    if kind == "hdf5":
        with h5py.File(root / "a.h5", "w") as file:
            file.create_dataset("raw", data=DATA, chunks=(4, 8, 8), compression="gzip")
        return "a.h5"
    tifffile.imwrite(root / "a.tif", DATA, compression="zlib", photometric="minisblack")
    return "a.tif"


KINDS = [
    *("zarr2", "zarr3", "zarr3-sharded", "zarr2-filter", "n5", "neuroglancer_precomputed", "ts-zarr", "ts-zarr3"),
    *("hdf5", "tiff"),
]


def read_all(path: str | Path, **options: Any) -> np.ndarray:
    array = open_levels(path, **options).levels[0]
    return array.read(Box.of_shape(array.meta.shape[-3:]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_read_equal_locally_and_over_http(served: FolderServer, kind: str) -> None:
    name = write(served.root, kind)
    np.testing.assert_array_equal(read_all(served.root / name), DATA)
    quoted = name.replace("%", "%25").replace("#", "%23").replace(" ", "%20")
    np.testing.assert_array_equal(read_all(f"{served.url}/{quoted}/?token=a"), DATA)
    local, remote_meta = read_array_meta(served.root / name), read_array_meta(f"{served.url}/{quoted}")
    assert remote_meta.voxel_size_nm == local.voxel_size_nm
    assert remote_meta.chunk_shape == local.chunk_shape


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("zarr://{}", "zarr2"),
        ("zarr2://{}/", "zarr2"),
        ("zarr3://{}", "zarr3"),
        ("{}/|zarr3:", "zarr3"),
        ("{}|zarr2:", "zarr2"),
        ("n5://{}", "n5"),
        ("{}/|n5:", "n5"),
        ("precomputed://{}", "neuroglancer_precomputed"),
        ("{}/|neuroglancer-precomputed:", "neuroglancer_precomputed"),
        ("precomputed://{}/s0", "neuroglancer_precomputed"),
    ],
)
def test_neuroglancer_url_forms(served: FolderServer, form: str, kind: str) -> None:
    name = write(served.root, kind).replace("%", "%25")
    np.testing.assert_array_equal(read_all(form.format(f"{served.url}/{name}")), DATA)


def pyramid(served: FolderServer) -> str:
    group = zarr.open_group(served.root / "v.zarr", mode="w", zarr_format=2)
    for name, step in (("s0", 1), ("s1", 2)):
        array = group.create_array(name, shape=(8 // step,) * 3, chunks=(4,) * 3, dtype="u1", fill_value=9)
        array[...] = step
    datasets = [("s0", (4.0,) * 3, (-2.0,) * 3), ("s1", (8.0,) * 3, (-2.0,) * 3)]
    group.attrs.update(multiscales_attrs(["z", "y", "x"], ["nanometer"] * 3, datasets, "v"))
    return f"{served.url}/v.zarr"


def test_level_over_http_is_placed_by_its_group(served: FolderServer) -> None:
    url = pyramid(served)
    assert read_array_meta(f"{url}/s1").voxel_size_nm == (8, 8, 8)
    assert read_array_meta(f"{url}/s1").corner_nm == (-2, -2, -2)
    assert len(list_levels(url)) == 2


def test_group_without_multiscale_over_http_has_its_s0(served: FolderServer) -> None:
    group = zarr.open_group(served.root / "v.zarr", mode="w", zarr_format=2)
    group.create_array("s0", shape=(4, 4, 4), dtype="u1")
    assert read_array_meta(f"{served.url}/v.zarr").path.endswith("/s0")


@pytest.mark.parametrize("answer", [403, 404])
@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "zarr2-filter", "n5", "zarr3-sharded", "neuroglancer_precomputed"])
def test_chunk_that_is_not_there_is_fill(served: FolderServer, kind: str, answer: int) -> None:
    name = write(served.root, kind)
    key = {
        "zarr2": "0.0.1",
        "zarr2-filter": "0.0.1",
        "zarr3": "c/0/0/1",
        "zarr3-sharded": "c/0/0/0",
        "n5": "1/0/0",
        "neuroglancer_precomputed": "4_4_40/8-16_0-8_0-4",
    }[kind]
    assert (served.root / name / key).is_file()
    served.faults[f"{name}/{key}"] = answer
    found = read_all(f"{served.url}/{name.replace('%', '%25')}")
    wanted = DATA.copy()
    wanted[
        (slice(0, 8), slice(0, 16), slice(0, 16))
        if kind == "zarr3-sharded"
        else (slice(0, 4), slice(0, 8), slice(8, 16))
    ] = 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("fault", [500, 503, "reset"])
@pytest.mark.parametrize("kind", ["zarr2", "zarr2-filter"])
def test_failing_chunk_is_retried_and_then_read(served: FolderServer, kind: str, fault: int | str) -> None:
    name = write(served.root, kind)
    served.faults[f"{name}/0.0.1"], served.times[f"{name}/0.0.1"] = fault, 2
    np.testing.assert_array_equal(read_all(f"{served.url}/{name.replace('%', '%25')}"), DATA)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two quick retries in place of seven slow ones."""
    retries = {"max_retries": 2, "initial_delay": "1ms", "max_delay": "2ms"}
    quick = ts.Context(dict.fromkeys(("http_request_retries", "s3_request_retries"), retries))
    monkeypatch.setattr(remote, "context", lambda: quick)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [500, 502, 503, 429, 400, 418, "reset"])
@pytest.mark.parametrize("kind", ["zarr2", "zarr2-filter", "n5"])
def test_chunk_that_keeps_failing_is_an_error_and_never_fill(served: FolderServer, kind: str, fault: int | str) -> None:
    name = write(served.root, kind)
    key = "1/0/0" if kind == "n5" else "0.0.1"
    served.faults[f"{name}/{key}"] = fault
    array = open_levels(f"{served.url}/{name.replace('%', '%25')}").levels[0]
    with pytest.raises(ChunkReadError):
        array.read(Box.of_shape(DATA.shape))


@pytest.mark.usefixtures("impatient")
def test_failing_metadata_is_an_error_and_not_another_format(served: FolderServer) -> None:
    url = pyramid(served)
    served.faults["v.zarr/s0/.zarray"] = 500
    with pytest.raises(ChunkReadError, match=r"s0/\.zarray"):
        open_levels(f"{url}/s0")


@pytest.mark.parametrize("path", ["v.zarr", "v.zarr/s0"])
def test_refused_metadata_is_named(served: FolderServer, path: str) -> None:
    pyramid(served)
    served.faults["v.zarr/s0/.zarray"] = 403
    with pytest.raises(AccessError, match=r"s0/\.zarray.*403"):
        open_levels(f"{served.url}/{path}")


def test_page_of_html_is_no_metadata(served: FolderServer) -> None:
    url = pyramid(served)
    served.faults["v.zarr/s0/zarr.json"] = "html"
    served.faults["v.zarr/s0/attributes.json"] = "html"
    assert read_array_meta(f"{url}/s0").format == "zarr2"
    served.faults["v.zarr/s0/.zarray"] = "html"
    with pytest.raises(ChunkloomError, match=r"^no volume at|not a volume"):
        open_levels(f"{url}/s0")


def test_page_of_html_is_no_chunk(served: FolderServer) -> None:
    url = pyramid(served)
    served.faults["v.zarr/s0/0.0.0"] = "html"
    array = open_levels(f"{url}/s0").levels[0]
    with pytest.raises(ChunkReadError):
        array.read(Box.of_shape((8, 8, 8)))


def test_nothing_at_a_url_is_one_line(served: FolderServer) -> None:
    with pytest.raises(VolumeNotFoundError, match=r"^no volume at") as caught:
        open_levels(f"{served.url}/nothing.zarr")
    assert "\n" not in str(caught.value)


def test_broken_json_over_http_names_the_file(served: FolderServer) -> None:
    pyramid(served)
    (served.root / "v.zarr/s0/.zarray").write_text('{"zarr_format": 2,')
    with pytest.raises(FormatError, match=r"s0/\.zarray is not valid JSON"):
        open_levels(f"{served.url}/v.zarr")


def test_nested_chunks_without_separator_are_seen_over_http(served: FolderServer) -> None:
    zarr.create_array(
        served.root / "a",
        shape=(4, 4, 4),
        chunks=(2, 2, 2),
        dtype="u1",
        zarr_format=2,
        chunk_key_encoding={"name": "v2", "separator": "/"},
    )[...] = 5
    document = json.loads((served.root / "a/.zarray").read_text())
    del document["dimension_separator"]
    (served.root / "a/.zarray").write_text(json.dumps(document))
    with pytest.raises(FormatError, match="dimension_separator"):
        open_levels(f"{served.url}/a")
    assert (read_all(f"{served.url}/a", dimension_separator="/") == 5).all()


def test_identity_follows_the_metadata(served: FolderServer) -> None:
    pyramid(served)
    before = open_levels(f"{served.url}/v.zarr/s0").levels[0].identity()
    assert open_levels(f"{served.url}/v.zarr/s0").levels[0].identity() == before
    document = json.loads((served.root / "v.zarr/s0/.zarray").read_text())
    (served.root / "v.zarr/s0/.zarray").write_text(json.dumps({**document, "fill_value": 4}))
    assert open_levels(f"{served.url}/v.zarr/s0").levels[0].identity() != before


@pytest.mark.parametrize("kind", KINDS)
def test_server_without_ranges_is_enough(served: FolderServer, kind: str) -> None:
    """As `python -m http.server`: the whole file whatever range is asked for."""
    served.ranges = False
    name = write(served.root, kind)
    np.testing.assert_array_equal(read_all(f"{served.url}/{name.replace('%', '%25')}"), DATA)


@pytest.mark.parametrize("kind", ["zarr2", "zarr2-filter"])
def test_chunks_are_not_fill_once_everything_is_refused(served: FolderServer, kind: str) -> None:
    """As when credentials run out while a volume is open."""
    name = write(served.root, kind)
    array = open_levels(f"{served.url}/{name.replace('%', '%25')}").levels[0]
    served.refuse_all = True
    with pytest.raises(AccessError, match=r"\.zarray.*403"):
        array.read(Box.of_shape(DATA.shape))


def test_group_that_cannot_be_listed_uses_its_consolidated_metadata_and_says_so(served: FolderServer) -> None:
    group = zarr.open_group(served.root / "v.zarr", mode="w", zarr_format=2)
    for name in ("seg", "em"):
        group.create_array(name, shape=(4, 4, 4), dtype="u1")
    zarr.consolidate_metadata(served.root / "v.zarr", zarr_format=2)
    opened = open_levels(f"{served.url}/v.zarr")
    assert opened.levels[0].meta.path.endswith("/em")
    assert any("consolidated" in warning for warning in opened.warnings)


def test_moved_address_is_said(served: FolderServer) -> None:
    write(served.root, "zarr3")
    served.faults["a b#c%d.zarr/zarr.json"] = 302
    with pytest.raises(ChunkReadError, match=r"moved \(302\)"):
        open_levels(f"{served.url}/a b#c%25d.zarr")


def test_a_file_that_moved_is_not_followed_to_another_server(tmp_path: Path) -> None:
    """Where a redirect leads, nobody has said may be opened."""
    import http.server
    import threading

    asked: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()

        do_GET = do_HEAD  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)

    class Redirecting(Elsewhere):
        def do_HEAD(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{elsewhere.server_address[1]}/a.h5")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD  # noqa: N815

    redirecting = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    for server in (elsewhere, redirecting):
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    for name in ("a.h5", "a.tif", "a.zarr"):
        with pytest.raises(ChunkloomError):
            open_levels(f"http://127.0.0.1:{redirecting.server_address[1]}/{name}")
    assert asked == []
    for server in (elsewhere, redirecting):
        server.shutdown()
        server.server_close()
