"""A pipeline over a whole volume, block by block, on many workers: planned from geometry, resumed exactly.

Computes nothing itself: blocks are read from the engine's pipeline, and written in its formats. Knows no web framework.
"""

from __future__ import annotations

from chunkloom.blockwise.run import BlockwiseSummary, run
from chunkloom.blockwise.task import BlockwiseTask, load_task

__all__ = ["BlockwiseSummary", "BlockwiseTask", "load_task", "run"]
