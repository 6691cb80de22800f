"""Metadata is the same text in Python and in a browser."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess

import pytest

from chunkloom.engine.formats.base import canonical_json, number_text

KNOWN = {
    0.0: "0",
    1.0: "1",
    -2.5: "-2.5",
    4.6: "4.6",
    1e-6: "0.000001",
    1e-7: "1e-7",
    1.5e-7: "1.5e-7",
    1e20: "100000000000000000000",
    1e21: "1e+21",
    1.25e22: "1.25e+22",
    5e-324: "5e-324",
    1.7976931348623157e308: "1.7976931348623157e+308",
    123456.789: "123456.789",
    2.0**53: "9007199254740992",
}


@pytest.mark.parametrize("value", KNOWN, ids=repr)
def test_known_numbers(value):
    assert number_text(value) == KNOWN[value]


def test_random_numbers_are_printed_as_node_prints_them():
    if shutil.which("node") is None:
        pytest.skip("needs node")
    chosen = random.Random(1)
    values = [struct.unpack("<d", chosen.randbytes(8))[0] for _ in range(3000)]
    values += [chosen.uniform(-1e4, 1e4) for _ in range(1000)] + [10.0**e for e in range(-320, 308)]
    values = [v for v in values if v == v and abs(v) != float("inf")]
    code = "const v=JSON.parse(require('fs').readFileSync(0));console.log(JSON.stringify(v.map(String)))"
    given = json.dumps([repr(v) for v in values])
    code = code.replace("v.map(String)", "v.map(t=>String(Object.is(Number(t),-0)?0:Number(t)))")
    done = subprocess.run(["node", "-e", code], input=given, capture_output=True, text=True, check=True)
    assert [number_text(v) for v in values] == json.loads(done.stdout)


def test_the_layout_is_that_of_json_stringify_with_two_spaces():
    data = {"a": [1, 2.0, {"b": None, "c": True}], "empty": {}, "none": [], "text": 'µm "quoted"', "f": 1e-7}
    if shutil.which("node") is None:
        pytest.skip("needs node")
    code = "const v=JSON.parse(require('fs').readFileSync(0));process.stdout.write(JSON.stringify(v,null,2)+'\\n')"
    done = subprocess.run(["node", "-e", code], input=json.dumps(data), capture_output=True, text=True, check=True)
    assert canonical_json(data).decode() == done.stdout


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": value})
