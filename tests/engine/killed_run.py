"""One materialize, in a process that may be killed. Started by test_materialize_kill.py with one JSON argument.

target   where to
log      a file that gets the index of each served chunk that was computed, a line each
options  of `materialize`
pause    seconds that each chunk takes
die_at   kill the process at this rename of a metadata file, counted from 1; "before" or "after" it
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np

from chunkloom import Volume, array_volume, materialize

SHAPE, CHUNK = (50, 44, 39), (8, 8, 8)


def made():
    rng = np.random.default_rng(7)
    data = rng.integers(1, 250, (2, *SHAPE)).astype(np.float32)
    data[:, 20:44, 8:30, 8:30] = 0
    return array_volume(data, chunk=CHUNK, voxel_size_nm=(8, 4, 4))


class Logged(Volume):
    """A volume that writes down what it computed."""

    def __init__(self, source, log, pause):
        self.source, self.levels, self.kind = source, source.levels, source.kind
        self.log, self.pause = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), pause

    @property
    def stage_digest(self):
        return self.source.stage_digest

    def read_box(self, level, box, work):
        time.sleep(self.pause)
        out = self.source.read_box(level, box, work)
        index = [b // c for b, c in zip(box.lo, CHUNK, strict=True)]
        os.write(self.log, (",".join(map(str, index)) + "\n").encode())
        return out


def die_at_metadata(number, when):
    """Kill this process before or after its n-th rename of a metadata file."""
    rename, seen = os.rename, [0]

    def watched(source, target):
        there = os.path.isdir(os.path.dirname(target))
        counts = str(target).endswith("json") and ".unfinished/" not in str(target) and there
        seen[0] += counts
        if counts and seen[0] == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
        if counts and seen[0] == number and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    os.rename = watched


def main():
    told = json.loads(sys.argv[1])
    if told.get("die_at"):
        die_at_metadata(*told["die_at"])
    done = materialize(Logged(made(), told["log"], told["pause"]), told["target"], **told["options"])
    print(json.dumps(done.to_dict()))


if __name__ == "__main__":
    main()
