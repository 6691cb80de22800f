"""The restart token: kept for its owner alone, compared in one time."""

from __future__ import annotations

import stat

import pytest

from chunkloom.errors import ParameterError
from chunkloom.serving.restart_token import make_token, read_token, same_token, write_token


def test_a_token_is_kept_for_its_owner_alone(tmp_path):
    token = make_token()
    path = tmp_path / "restart_token"
    path.write_text("an older one")
    path.chmod(0o644)
    write_token(path, token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token(path) == token
    assert [p.name for p in tmp_path.iterdir()] == ["restart_token"]


def test_tokens_differ_and_are_long():
    assert len({make_token() for _ in range(20)}) == 20
    assert len(make_token()) >= 40


@pytest.mark.parametrize("content", [None, "", "\n", "é"])
def test_a_token_that_is_not_there_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / "t").write_text(content)
    with pytest.raises(ParameterError, match="restart token"):
        read_token(tmp_path / "t")


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        (b"a", "a", True),
        (b"b", "a", False),
        (b"", "a", False),
        (None, "a", False),
        (b"", "", False),
        (b"\xff", "a", False),
    ],
)
def test_tokens_are_compared(given, expected, same):
    assert same_token(given, expected) is same
