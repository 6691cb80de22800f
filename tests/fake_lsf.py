"""A stand-in for LSF, for where there is none: one script that is `bsub`, `bjobs`, `bpeek` and `bkill`.

Each call appends its argv to `$FAKE_LSF/calls`. Jobs really run, as processes, in the queue `run`; they wait for ever
in `stuck`, are refused in `closed`, and in `mute` bsub takes the job and never answers. `$FAKE_LSF/play/<command>` is
printed as it is instead, where it is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(os.environ.get("FAKE_LSF", "."))


def install(folder: Path, programs: Path) -> None:
    """Put the commands into `programs`; `folder` is for `$FAKE_LSF`."""
    programs.mkdir(exist_ok=True)
    (folder / "play").mkdir(parents=True)
    for name in ("bsub", "bjobs", "bpeek", "bkill"):
        (programs / name).write_text(f"#!{sys.executable} -SE\n{Path(__file__).read_text()}")
        (programs / name).chmod(0o755)


def main() -> int:
    command, words = Path(sys.argv[0]).name, sys.argv[1:]
    with open(STATE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(STATE / "calls", "a") as calls:
            calls.write(json.dumps([command, *words]) + "\n")
    played = STATE / "play" / command
    if played.exists():
        print(played.read_text(), end="")
        return 0
    return {"bsub": bsub, "bjobs": bjobs, "bpeek": bpeek, "bkill": bkill}[command](words)


def bsub(words: list[str]) -> int:
    options, rest = {}, list(words)
    while rest and rest[0].startswith("-"):
        options[rest[0]] = rest[1]
        rest = rest[2:]
    queue = options.get("-q", "run")
    if queue not in ("run", "stuck", "mute", "slow"):
        print(f"{queue}: No such queue. Job not submitted.", file=sys.stderr)
        return 255
    if queue == "slow":
        (STATE / "submitting").touch()
        time.sleep(1)
    number = str(100 + len(list(STATE.glob("job_*"))))
    log = options.get("-o", "/dev/null").replace("%J", number)
    pid = None
    # As LSF does: one line for a shell, what has spaces or quotes in it between single quotes.
    line = " ".join(word if re.fullmatch(r"[\w./:=,@%+-]+", word) else f"'{word}'" for word in rest)
    if queue != "stuck":
        code = f"{str(STATE / 'end_')!r} + {number!r}"
        runner = f"import subprocess, sys; c = subprocess.call(sys.argv[1:]); open({code}, 'w').write(str(c))"
        with open(log, "wb") as out:
            pid = subprocess.Popen(
                [sys.executable, "-c", runner, "sh", "-c", line],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "LSB_JOBID": number},
            ).pid
    job = {"name": options.get("-J"), "pid": pid, "log": log}
    (STATE / f"job_{number}").write_text(json.dumps(job))
    if queue == "mute":
        (STATE / "submitting").touch()
        time.sleep(600)
    print(f"Job <{number}> is submitted to queue <{queue}>.")
    return 0


def state_of(number: str) -> tuple[str, str, str]:
    job = json.loads((STATE / f"job_{number}").read_text())
    if (STATE / f"killed_{number}").exists():
        return "EXIT", "130", "TERM_OWNER: job killed by owner"
    if job["pid"] is None:
        return "PEND", "-", "-"
    end = STATE / f"end_{number}"
    if not end.exists() or not end.read_text():
        return "RUN", "-", "-"
    code = int(end.read_text())
    return ("DONE", "-", "-") if code == 0 else ("EXIT", str(code), "-")


def bjobs(words: list[str]) -> int:
    jobs = sorted(path.name[4:] for path in STATE.glob("job_*"))
    if "-J" in words:
        name = words[words.index("-J") + 1]
        for number in jobs:
            if json.loads((STATE / f"job_{number}").read_text())["name"] == name:
                print(f"{number}     user    {state_of(number)[0]}  run        here        there       {name}")
        return 0
    print("JOBID|STAT|EXIT_CODE|EXIT_REASON")
    asked, missing = [word for word in words if word.isdigit()] or jobs, False
    for number in asked:
        if number in jobs:
            print("|".join((number, *state_of(number))))
        else:
            missing = True
            print(f"Job <{number}> is not found", file=sys.stderr)
    return 255 if missing else 0


def bpeek(words: list[str]) -> int:
    job = json.loads((STATE / f"job_{words[0]}").read_text())
    print(f"<< output from stdout >>\n{Path(job['log']).read_text() if job['pid'] else ''}", end="")
    return 0


def bkill(words: list[str]) -> int:
    code = 0
    for number in words:
        if state_of(number)[0] in ("DONE", "EXIT"):
            print(f"Job <{number}>: Job has already finished", file=sys.stderr)
            code = 255
            continue
        (STATE / f"killed_{number}").touch()
        pid = json.loads((STATE / f"job_{number}").read_text())["pid"]
        if pid:
            os.killpg(pid, signal.SIGKILL)
        print(f"Job <{number}> is being terminated")
    return code


if __name__ == "__main__":
    sys.exit(main())
