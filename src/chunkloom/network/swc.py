"""SWC text to morphologies and back. One line per point: number, type, x, y, z, radius, number of the parent point
(-1: none)."""

from __future__ import annotations

import numpy as np

from chunkloom.network.errors import FormatError
from chunkloom.network.morphologies import Morphology

TYPES = {1: "soma", 2: "axon", 3: "dendrites", 4: "apical_dendrites"}
"""Labels of the standard types; any other type n becomes "tag_n", and 0 none."""


def parse_swc(text: str, name: str = "SWC") -> Morphology:
    """The morphology of SWC text.

    A new branch begins where a point has several children and where the type changes; it starts with a copy of the
    point it leaves. The type is kept as the property "tags", too.

    Raises
    ------
    FormatError
        A line is not seven numbers; a number comes twice; a parent is missing or makes a circle. The line is named.
    """
    rows: dict[int, tuple[int, tuple[float, ...], int]] = {}
    for at, line in enumerate(text.splitlines(), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        try:
            number, kind, parent = int(fields[0]), int(float(fields[1])), int(fields[6])
            values = tuple(float(f) for f in fields[2:6])
        except (ValueError, IndexError):
            raise FormatError(f"{name}, line {at}: expected seven numbers, found {line.strip()!r}") from None
        if number in rows:
            raise FormatError(f"{name}, line {at}: point {number} comes twice")
        rows[number] = (kind, values, parent)
    children: dict[int, list[int]] = {n: [] for n in rows}
    roots = []
    for number, (_, _, parent) in rows.items():
        if parent < 0:
            roots.append(number)
        elif parent not in rows:
            raise FormatError(f"{name}: point {number} has parent {parent}, which is not there")
        else:
            children[parent].append(number)
    branches: list[tuple[list[int], int]] = []
    pending = [(root, -1, -1) for root in reversed(roots)]
    seen = 0
    while pending:
        start, leaves, parent_branch = pending.pop()
        stretch = [start]
        while len(children[stretch[-1]]) == 1 and rows[children[stretch[-1]][0]][0] == rows[start][0]:
            stretch.append(children[stretch[-1]][0])
        seen += len(stretch)
        branches.append(([leaves, *stretch] if leaves >= 0 else stretch, parent_branch))
        index = len(branches) - 1
        pending.extend((child, stretch[-1], index) for child in reversed(children[stretch[-1]]))
    if seen != len(rows):
        raise FormatError(f"{name}: {len(rows) - seen} points lead to no root: their parents make a circle")
    return _assemble(rows, branches)


def _assemble(rows: dict[int, tuple[int, tuple[float, ...], int]], branches: list[tuple[list[int], int]]) -> Morphology:
    kinds: list[int] = []
    values: list[tuple[float, ...]] = []
    for stretch, parent in branches:
        own = rows[stretch[-1] if parent >= 0 else stretch[0]][0]
        for number in stretch:
            kinds.append(own)
            values.append(rows[number][1])
    table = np.array(values, float).reshape(-1, 4)
    present = sorted({k for k in kinds if k})
    number_of = {0: 0} | {k: i for i, k in enumerate(present, 1)}
    sets = {0: frozenset[str]()} | {i: frozenset({TYPES.get(k, f"tag_{k}")}) for i, k in enumerate(present, 1)}
    return Morphology(
        points=table[:, :3],
        radii=table[:, 3],
        ends=np.cumsum([len(stretch) for stretch, _ in branches]).astype(np.int64),
        parents=np.array([parent for _, parent in branches], np.int64),
        labels=np.array([number_of[k] for k in kinds], np.int64),
        labelsets=sets,
        properties={"tags": np.array(kinds, float)},
    )


def format_swc(morphology: Morphology) -> str:
    """A morphology as SWC text, parents before children; copies of branching points are left out."""
    types = {label: n for n, label in TYPES.items()}
    tags = morphology.properties.get("tags")
    labels = morphology.point_labels()
    lines = ["# number type x y z radius parent"]
    last: dict[int, int] = {}
    number = 0
    for index, parent in enumerate(morphology.parents.tolist()):
        here = morphology.branch(index)
        above = last[parent] if parent >= 0 else -1
        begin = here.start + (1 if parent >= 0 and _is_copy(morphology, here.start, parent) else 0)
        for i in range(begin, here.stop):
            number += 1
            known = [types[name] for name in sorted(labels[i]) if name in types]
            kind = int(tags[i]) if tags is not None else (known[0] if known else 0)
            x, y, z = (repr(float(v)) for v in morphology.points[i])
            lines.append(f"{number} {kind} {x} {y} {z} {float(morphology.radii[i])!r} {above}")
            above = number
        last[index] = above
    return "\n".join(lines) + "\n"


def _is_copy(morphology: Morphology, point: int, parent: int) -> bool:
    return bool(np.array_equal(morphology.points[point], morphology.points[morphology.branch(parent).stop - 1]))
