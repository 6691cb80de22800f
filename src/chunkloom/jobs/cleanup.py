"""Ending this process's jobs when a signal ends the process. For entry points, on the main thread, alone."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from chunkloom.errors import ChunkloomError
from chunkloom.jobs.ledger import Ledger, started_jobs


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a process to end."""
    hangup = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()
    return (signal.SIGINT, signal.SIGTERM, *hangup)


def install_cleanup_handlers(ledger: Ledger | None = None) -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end the jobs of this process, and then the process with 128 + signal.

    A signal that is ignored (``nohup``) stays ignored.

    Raises
    ------
    ChunkloomError
        Called on another thread than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ChunkloomError(
            "cleanup handlers can be installed on the main thread alone: call this from an entry point"
        )
    owner = os.getpid()
    jobs = ledger if ledger is not None else started_jobs()

    def handler(number: int, frame: FrameType | None) -> None:
        cleanup_handler(number, frame, jobs, owner)

    for number in ending_signals():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def cleanup_handler(number: int, frame: FrameType | None, ledger: Ledger, owner: int) -> None:
    """End the jobs; a second signal must not cut that short."""
    if os.getpid() == owner:
        for one in ending_signals():
            signal.signal(one, signal.SIG_IGN)
        ledger.close()
    raise SystemExit(128 + number)
