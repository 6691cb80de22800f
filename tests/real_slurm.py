"""A Slurm of one node, for tests: munged, slurmctld and slurmd of our own, in a folder of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")

CONF = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=defer_batch=no,sched_interval=1,batch_sched_delay=0
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=60
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=500 State=UNKNOWN
PartitionName=run Nodes={host} Default=YES MaxTime=INFINITE OverSubscribe=FORCE:16 State=UP
PartitionName=stuck Nodes={host} MaxTime=INFINITE State=DOWN
"""


def path_with_sbin() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


@contextlib.contextmanager
def slurm() -> Iterator[Path]:
    """Start it; gives its configuration file, for `SLURM_CONF`. Skips the test where it is not installed."""
    missing = [name for name in NEEDED if not shutil.which(name, path=path_with_sbin())]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Slurm cannot be started: {'not root' if not missing else 'not installed: ' + ', '.join(missing)}")
    # Not pytest's folder: a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    processes: list[subprocess.Popen[bytes]] = []
    conf = folder / "slurm.conf"
    environment = {**os.environ, "PATH": path_with_sbin(), "SLURM_CONF": str(conf)}
    try:
        folder.chmod(0o755)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        conf.write_text(
            CONF.format(host=host, folder=folder, cpus=os.cpu_count(), ctld_port=free_port(), d_port=free_port())
        )

        def start(name: str, *words: str) -> None:
            with open(folder / f"{name}.log", "wb") as log:
                processes.append(subprocess.Popen([name, *words], env=environment, stdout=log, stderr=log))

        start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={folder}/munge.key",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        )
        until((folder / "munge.socket").exists, "munged's socket", folder)
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D")

        def idle() -> bool:
            words = ["sinfo", "--noheader", "--partition=run", "--format=%T"]
            return subprocess.run(words, env=environment, capture_output=True, text=True).stdout.strip() == "idle"

        until(idle, "an idle node", folder)
        yield conf
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["scancel", "--user=root"], env=environment, timeout=20, capture_output=True)
            until(lambda: not subprocess.check_output(["squeue", "-h"], env=environment, timeout=20), "an end", folder)
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def until(found, what: str, folder: Path, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            logs = {path.name: path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log")}
            raise AssertionError(f"Slurm: no {what} in {seconds} s: {logs}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
