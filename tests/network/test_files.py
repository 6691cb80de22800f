"""Files stored in a network file."""

from __future__ import annotations

import hashlib

import pytest

from chunkloom.network import NetworkFile
from chunkloom.network.errors import NetworkExistsError, NetworkNotFoundError, ParameterError


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"abc\0\0", b"\x01\x02\xff", "", "text \u00e9", "x\0", "a" * 100_000],
    ids=lambda c: repr(c)[:20],
)
@pytest.mark.parametrize("closed", [False, True], ids=["in the journal", "in the file"])
def test_content_comes_back_exactly(network: NetworkFile, content: bytes | str, closed: bool) -> None:
    id = network.files.store(content, meta={"kind": "x"})
    if closed:
        network.close()
    found = network.files.load(id)
    assert (type(found.content), found.content) == (type(content), content)
    assert found.encoding == ("utf-8" if isinstance(content, str) else None)
    raw = content.encode() if isinstance(content, str) else content
    assert found.meta["content_sha256"] == hashlib.sha256(raw).hexdigest()
    assert (found.meta["kind"], found.meta["mtime"]) == ("x", found.mtime)


def test_metadata_given_is_not_changed(network: NetworkFile) -> None:
    meta = {"a": [1]}
    network.files.store("1", "one", meta)
    network.files.store("2", "two", meta)
    assert meta == {"a": [1]}
    assert network.files.get_meta("one")["content_sha256"] != network.files.get_meta("two")["content_sha256"]


def test_ids_are_kept_apart(network: NetworkFile) -> None:
    files = network.files
    files.store("1", "one")
    with pytest.raises(NetworkExistsError):
        files.store("2", "one")
    files.store("2", "one", overwrite=True)
    assert (files.load("one").content, files.has("one"), files.has("placement")) == ("2", True, False)
    files.remove("one")
    for method in (files.load, files.remove, files.get_mtime):
        with pytest.raises(NetworkNotFoundError):
            method("one")
    with pytest.raises(ParameterError):
        files.store("1", "a/b")
    with pytest.raises(ParameterError, match="JSON"):
        files.store("1", "one", {"x": {1}})
    assert files.all() == {}


def test_there_is_one_active_configuration(network: NetworkFile) -> None:
    with pytest.raises(NetworkNotFoundError):
        network.files.load_active_config()
    first = network.files.store_active_config({"a": 1})
    second = network.files.store_active_config({"b": 2})
    assert network.files.load_active_config() == {"b": 2}
    assert (network.files.active_id(), set(network.files.all())) == (second, {second})
    assert first != second
