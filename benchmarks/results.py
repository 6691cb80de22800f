"""A benchmark's table: printed as it grows, and kept in `benchmarks/results/`."""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"


class Table:
    """Rows of a benchmark, the first column the widest.

    Parameters
    ----------
    name
        The script's, and so the file's.
    columns
        Their names.
    """

    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        self.name, self.columns = name, columns
        self._rows: list[tuple[object, ...]] = []
        self._over = 0
        self._print(columns)

    def row(self, *values: object, over: bool) -> None:
        """Add a row; `over` where it misses its goal."""
        self._rows.append(values)
        self._over += over
        self._print(values, "   <-- over" if over else "")

    def finish(self) -> int:
        """Keep the table; how many rows missed their goal."""
        FOLDER.mkdir(exist_ok=True)
        head = f"# benchmarks/{self.name}.py, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores"
        lines = ["\t".join(str(value) for value in row) for row in (self.columns, *self._rows)]
        (FOLDER / f"{self.name}.tsv").write_text("\n".join([head, *lines]) + "\n")
        return self._over

    def _print(self, values: tuple[object, ...], note: str = "") -> None:
        first, *rest = (str(value) for value in values)
        print(f"{first:<52}" + "".join(f"{value:>14}" for value in rest) + note, flush=True)
