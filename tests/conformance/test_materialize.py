"""Every case of `materialize/`, whose expected store was told from the whole array by NumPy alone."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from chunkloom import Grid, Level, Pipeline, Volume, materialize
from chunkloom.chain.registry import build_step, input_normalizers
from chunkloom.chain.steps import InputNormalizer, PostProcessor
from chunkloom.engine.op import make_op
from chunkloom.engine.ops.steps import steps_as_ops
from chunkloom.errors import ChunkloomError

CASES = [json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "materialize").glob("*.json"))]


class FormulaVolume(Volume):
    """The volume of a case's source: each voxel by the formula of README.md."""

    def __init__(self, source):
        channels = tuple(source["channels"])
        names = ("c",) if len(channels) == 1 else tuple(f"c{i}" for i in range(len(channels)))
        self.source_data = source
        self.kind = source["kind"]
        self.levels = tuple(
            Level(
                shape=(*channels, *level["shape"]),
                dtype=np.dtype(source["dtype"]),
                chunk_shape=(*channels, *level["chunk"]),
                axes=(*names, "z", "y", "x"),
                grid=Grid(tuple(level["voxel_size_nm"]), tuple(level["corner_nm"])),
            )
            for level in source["levels"]
        )

    @property
    def stage_digest(self):
        return hashlib.sha256(json.dumps(self.source_data).encode()).hexdigest()[:16]

    def read_box(self, level, box, work):
        formula, described = self.source_data["formula"], self.levels[level]
        at = np.ogrid[tuple(slice(b, h) for b, h in zip(box.lo, box.hi, strict=True))]
        kc, kz, ky, kx, kl = formula["factors"]
        inside = np.ones(box.shape, bool) if not formula["inside"] else np.zeros(box.shape, bool)
        for part in formula["inside"]:
            z, y, x = ((at[a] >= part["lo"][a]) & (at[a] < part["hi"][a]) for a in range(3))
            inside |= z & y & x
        out = np.zeros((math.prod(described.channels), *box.shape), described.dtype)
        for c in range(len(out)):
            total = kc * c + kz * at[0] + ky * at[1] + kx * at[2] + kl * level + formula["offset"]
            base = np.where(inside, total % formula["modulus"] - formula["subtract"], 0)
            if described.dtype.itemsize == 8 and described.dtype.kind in "iu":
                out[c] = base.astype(described.dtype) * described.dtype.type(int(formula["scale"]))
            else:
                out[c] = base * int(formula["scale"]) / formula["divisor"]
        return out.reshape((*described.channels, *box.shape))


def ops_of(case):
    made = []
    for data in case["ops"]:
        if data["name"] == "cast":
            made.append(make_op("cast", {"dtype": data["dtype"]}))
            continue
        base = InputNormalizer if data["name"] in input_normalizers() else PostProcessor
        made += steps_as_ops([build_step(base, data)])
    return made


def run(case, folder: Path):
    volume: Volume = FormulaVolume(case["source"])
    if case["ops"]:
        volume = Pipeline(volume, ops_of(case), chunk=case["source"]["levels"][0]["chunk"])
    results, needed, options = [], [], case["options"]
    for box in case["boxes"]:
        reports = []
        lo, hi = box["lo"] or [None] * 3, box["hi"] or [None] * 3
        results.append(
            materialize(
                volume,
                folder / "store",
                box=list(zip(lo, hi, strict=True)),
                levels=[options["level"]],
                extent=options["extent"],
                format=options["format"],
                codec=options["codec"],
                skip_empty=options["skip_empty"],
                attributes=options["attributes"],
                name=case["source"]["name"],
                progress=reports.append,
            )
        )
        needed.append((reports[-1].computed, reports[-1].needed))
    return results, needed


def test_there_are_at_least_forty_cases():
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", [c for c in CASES if "error" in c["expected"]], ids=lambda c: c["name"])
def test_case_is_refused(case, tmp_path):
    with pytest.raises(ChunkloomError, match=case["expected"]["error"]):
        run(case, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", [c for c in CASES if "error" not in c["expected"]], ids=lambda c: c["name"])
def test_case_is_written_as_told(case, tmp_path):
    results, needed = run(case, tmp_path)
    expected = case["expected"]
    store = tmp_path / "store"
    found = {p.relative_to(store).as_posix(): p.read_bytes() for p in store.rglob("*") if p.is_file()}
    assert {k: v.decode() for k, v in found.items() if k in expected["files"]} == expected["files"]
    chunks = {k: v for k, v in found.items() if k not in expected["files"]}
    assert sorted(chunks) == sorted(expected["chunks"])
    for key, told in expected["chunks"].items():
        check_chunk(chunks[key], told, case, key)
    for result, computed, told in zip(results, needed, expected["results"], strict=True):
        assert computed == (told["needed"], told["needed"])
        for name in ("shape", "chunk", "lo", "hi", "done", "written", "skipped"):
            value = getattr(result, name)
            assert (list(value) if isinstance(value, tuple) else value) == told[name], name
        assert told["bytes"] is None or result.bytes == told["bytes"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]


def check_chunk(stored: bytes, told, case, key: str) -> None:
    import gzip

    raw = gzip.decompress(stored) if case["options"]["codec"] == "gzip" else stored
    assert len(raw) == told["bytes"], key
    if not case["tolerance"]:
        assert hashlib.sha256(raw).hexdigest() == told["sha256"], key
        return
    values = np.frombuffer(base64.b64decode(told["values"]), np.float32)
    np.testing.assert_allclose(np.frombuffer(raw, np.float32), values, rtol=0, atol=case["tolerance"])
