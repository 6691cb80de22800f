"""The guide's worked example runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chunkloom.network import NetworkFile

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "networks.md"


def test_the_worked_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example, resource, parts = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert "int64" in capsys.readouterr().out
    names["network"] = NetworkFile.open("cortex.hdf5")
    exec(resource, names)
    names |= {"rank": 0, "chunk": names["Chunk"]((0, 0, 0)), "positions": names["np"].ones((2, 3))}
    # A part's cells have what the chunk's others have.
    exec(parts.replace("positions)\n", "positions, additional={'label_id': [1, 2]})\n"), names)
    assert len(NetworkFile.open("cortex.hdf5").placement("granule")) == 402
