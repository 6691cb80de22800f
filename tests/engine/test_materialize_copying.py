"""Chunk files are copied whole, whatever their length and whatever the file system takes."""

from __future__ import annotations

import errno
import os

import pytest

from chunkloom.engine.writing import copying
from chunkloom.engine.writing.copying import BLOCK, BUFFER, copy_file

SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, BUFFER - 1, BUFFER, BUFFER + 1, 2 * BUFFER + 5]


@pytest.mark.parametrize("size", SIZES)
def test_a_copy_has_the_same_bytes(size, tmp_path):
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "b").write_bytes(b"longer than what comes" * 9)
    assert copy_file(str(tmp_path / "a"), str(tmp_path / "b")) == size
    assert (tmp_path / "b").read_bytes() == data


@pytest.mark.parametrize("size", SIZES)
def test_a_file_system_that_refuses_direct_writes_gets_the_same_bytes(size, tmp_path, monkeypatch):
    write, refused = os.write, []

    def refusing(descriptor, data):
        if not refused:
            refused.append(len(data))
            raise OSError(errno.EINVAL, "no")
        return write(descriptor, data)

    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    monkeypatch.setattr(copying.os, "write", refusing)
    copy_file(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == data
