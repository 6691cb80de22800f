"""Paths as people type them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chunkloom.errors import ParameterError
from chunkloom.io import parse_path


@pytest.mark.parametrize(
    ("text", "base", "kind", "inner"),
    [
        ("/a/b.zarr/s0/", "/a/b.zarr/s0", None, ""),
        ("/a b/c#d%20e", "/a b/c#d%20e", None, ""),
        ("/a\\ b", "/a b", None, ""),
        ("file:///a/b", "/a/b", None, ""),
        ("file:///a%20b", "/a b", None, ""),
        ("/a/b.h5::/volumes/raw", "/a/b.h5", "hdf5", "volumes/raw"),
        ("/a/b.hdf/volumes/raw", "/a/b.hdf", "hdf5", "volumes/raw"),
        ("/a/b.tiff", "/a/b.tiff", "tiff", ""),
        ("https://h:80/a%20b/c/", "https://h:80/a b/c", None, ""),
        ("http://h/a/b.h5::raw", "http://h/a/b.h5", "hdf5", "raw"),
        ("s3://bucket/a b/c", "s3://bucket/a b/c", None, ""),
        ("s3://bucket/a%20b", "s3://bucket/a%20b", None, ""),
        ("gs://bucket/a", "gs://bucket/a", None, ""),
        ("zarr://s3://bucket/a", "s3://bucket/a", "zarr", ""),
        ("zarr2://https://h/a", "https://h/a", "zarr2", ""),
        ("n5:///a/b", "/a/b", "n5", ""),
        ("precomputed://gs://bucket/a", "gs://bucket/a", "precomputed", ""),
        ("s3://bucket/a.zarr/|zarr3:", "s3://bucket/a.zarr", "zarr3", ""),
        ("s3://bucket/a.zarr|zarr2:em/s0/", "s3://bucket/a.zarr/em/s0", "zarr2", ""),
        ("https://h/a/|neuroglancer-precomputed:", "https://h/a", "precomputed", ""),
        ("https://h/a.h5|hdf5:/raw", "https://h/a.h5", "hdf5", "raw"),
    ],
)
def test_path_is_taken_apart(text: str, base: str, kind: str | None, inner: str) -> None:
    location = parse_path(text)
    assert (location.base, location.format, location.inner) == (base, kind, inner)
    assert location.text == text


def test_query_is_kept_apart() -> None:
    location = parse_path("https://h/a/b?token=x/y")
    assert (location.base, location.query) == ("https://h/a/b", "?token=x/y")
    assert location.child("s0").query == "?token=x/y"


def test_relative_path_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_path("a/../b").base == os.path.join(os.path.realpath(tmp_path), "b")
    assert parse_path("~/c").base == "/home/me/c"
    assert parse_path(Path("d")).base == os.path.join(os.path.realpath(tmp_path), "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("ftp://h/a", "unknown scheme ftp://"),
        ("zar://s3://b/a", "did you mean 'zarr'"),
        ("s3://", "names no bucket"),
        ("https:///a", "names no host"),
        ("s3://b/a/../c", "no meaning"),
        ("s3://b/a|zar:", "unknown format 'zar'"),
        ("a\0b", "NUL"),
    ],
)
def test_path_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_path(text)


@pytest.mark.parametrize(
    ("base", "inside", "suffix"),
    [
        ("/a/x.zarr/s0", True, ".zarr"),
        ("/a/x.zarr", False, ".zarr"),
        ("/a/x.zarr-v2/s0", False, ""),
        ("s3://b/x.n5/c/d", True, ".n5"),
    ],
)
def test_container_is_a_whole_component(base: str, inside: bool, suffix: str) -> None:
    location = parse_path(base)
    assert (location.in_container, location.container_suffix) == (inside, suffix)


def test_going_up_stops_at_the_root() -> None:
    location = parse_path("s3://bucket/a/b")
    assert location.parent().parent().base == "s3://bucket"
    assert location.parent().parent().parent().base == "s3://bucket"
    assert location.child("../c").base == "s3://bucket/a/c"
    assert parse_path("/a").parent().base == "/"
