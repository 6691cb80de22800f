from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.demand import Scheduler
from chunkloom.errors import CancelledWorkError


class Gate:
    """A scheduler of one thread that is held until `open`, so that a queue builds up behind it."""

    def __init__(self, workers: int = 1) -> None:
        self.scheduler = Scheduler(workers)
        self.order: list[object] = []
        self._opened = threading.Event()
        self._held = [threading.Event() for _ in range(workers)]
        for i, held in enumerate(self._held):
            self.scheduler.claim(("gate", i), lambda work, held=held: (held.set(), self._opened.wait(10)))
        for held in self._held:
            assert held.wait(10)

    def claim(self, key, **kw):
        return self.scheduler.claim(key, lambda work: self.order.append(key) or key, **kw)

    def open(self) -> None:
        self._opened.set()


def test_claims_of_one_chunk_share_one_job():
    gate = Gate()
    claims = [gate.claim("a") for _ in range(8)]
    gate.open()
    assert [claim.future.result(10) for claim in claims] == ["a"] * 8
    assert gate.order == ["a"]


def test_finest_level_first_then_arrival():
    gate = Gate()
    claims = [gate.claim("coarse", level=2), gate.claim("fine 1", level=0), gate.claim("fine 2", level=0)]
    gate.open()
    for claim in claims:
        claim.future.result(10)
    assert gate.order == ["fine 1", "fine 2", "coarse"]


def test_background_comes_last_and_is_promoted_by_a_client():
    gate = Gate()
    claims = [gate.claim("b1", background=True), gate.claim("b2", background=True), gate.claim("c", level=3)]
    claims.append(gate.claim("b2"))
    gate.open()
    for claim in claims:
        claim.future.result(10)
    assert gate.order == ["b2", "c", "b1"]


def test_a_long_queue_of_one_client_does_not_starve_another():
    gate = Gate()
    claims = [gate.claim(("greedy", i), client="greedy") for i in range(6)]
    claims += [gate.claim(("modest", i), client="modest") for i in range(2)]
    gate.open()
    for claim in claims:
        claim.future.result(10)
    assert [key[0] for key in gate.order[:4]].count("modest") == 2


def test_cheap_work_comes_before_dear_work_of_any_level():
    gate = Gate()
    claims = [gate.claim("dear", cost=64), gate.claim("less dear", cost=1), gate.claim("cheap", level=3)]
    gate.open()
    for claim in claims:
        claim.future.result(10)
    assert gate.order == ["cheap", "less dear", "dear"]


def test_a_dear_job_makes_way_at_its_next_check_and_goes_on_later():
    scheduler = Scheduler(1)
    order, reached, cheap_waits = [], threading.Event(), threading.Event()

    def dear(work):
        order.append("dear")
        reached.set()
        cheap_waits.wait(10)
        work.check()
        return "done"

    first = scheduler.claim("dear", dear, cost=8)
    reached.wait(10)
    second = scheduler.claim("cheap", lambda work: order.append("cheap"))
    cheap_waits.set()
    second.future.result(10)
    assert first.future.result(10) == "done"
    assert order == ["dear", "cheap", "dear"]


def test_a_job_nobody_waits_for_is_never_run():
    gate = Gate()
    left = gate.claim("left")
    stays = gate.claim("stays")
    left.release()
    gate.open()
    stays.future.result(10)
    assert gate.order == ["stays"]
    assert gate.scheduler.snapshot()["dropped"] == 1


def test_a_job_is_kept_while_one_of_two_still_waits():
    gate = Gate()
    first, second = gate.claim("a"), gate.claim("a")
    first.release()
    gate.open()
    assert second.future.result(10) == "a"
    with pytest.raises(CancelledError):
        first.future.result(10)


def test_a_running_job_stops_at_its_next_check():
    scheduler = Scheduler(1)
    running, released = threading.Event(), threading.Event()
    seen = []

    def run(work):
        running.set()
        released.wait(10)
        try:
            work.check()
        except CancelledWorkError as error:
            seen.append(error)
            raise

    claim = scheduler.claim("a", run)
    running.wait(10)
    claim.release()
    released.set()
    assert scheduler.claim("b", lambda work: 1).future.result(10) == 1
    assert len(seen) == 1


def test_a_failure_reaches_all_who_wait_and_a_later_claim_runs_again():
    gate = Gate()
    outcomes = iter([ValueError("first"), None])

    def run(work):
        outcome = next(outcomes)
        if outcome:
            raise outcome
        return "fine"

    claims = [gate.scheduler.claim("a", run) for _ in range(3)]
    gate.open()
    for claim in claims:
        with pytest.raises(ValueError, match="first"):
            claim.future.result(10)
    assert gate.scheduler.claim("a", run).future.result(10) == "fine"


def test_background_leaves_a_worker_free():
    scheduler = Scheduler(2)
    release, running = threading.Event(), []

    def hold(work):
        running.append(1)
        release.wait(10)

    background = [scheduler.claim(("b", i), hold, background=True) for i in range(4)]
    assert scheduler.claim("c", lambda work: "seen").future.result(10) == "seen"
    assert len(running) <= 1
    release.set()
    for claim in background:
        claim.future.result(10)


def test_closing_ends_those_who_wait():
    gate = Gate()
    claim = gate.claim("a")
    gate.scheduler.close()
    with pytest.raises(CancelledError):
        claim.future.result(10)
    gate.open()


def test_clients_that_come_later_do_not_starve_the_one_that_came_first():
    gate = Gate()
    first = [gate.claim(("first", i), client="first") for i in range(2)]
    others = [gate.claim(("other", i), client=("other", i)) for i in range(10)]
    gate.open()
    for claim in first + others:
        claim.future.result(10)
    assert ("first", 0) in gate.order[:2]
    assert ("first", 1) in gate.order[:12]


def test_a_dear_job_does_not_make_way_for_work_that_is_already_taken():
    gate = Gate()
    cheap = gate.claim("cheap")
    cheap.release()
    stops = []

    def dear(work):
        work.check()
        stops.append(1)

    claim = gate.scheduler.claim("dear", dear, cost=8)
    gate.open()
    claim.future.result(10)
    assert stops == [1]


def test_one_that_waits_for_anothers_chunk_stops_when_nobody_waits_for_it():
    cache, gate, begun = ChunkCache(1 << 20), threading.Event(), threading.Event()

    def slow():
        begun.set()
        gate.wait(20)
        return np.zeros(3)

    leader = threading.Thread(target=lambda: cache.get("chunk", slow))
    leader.start()
    assert begun.wait(20)
    scheduler = Scheduler(1)
    ended = threading.Event()

    def follow(work):
        try:
            return cache.get("chunk", slow, work)
        finally:
            ended.set()

    claim = scheduler.claim("follower", follow)
    while not scheduler.snapshot()["running"]:
        pass
    claim.release()
    assert ended.wait(20), "it still waits"
    gate.set()
    leader.join()
    scheduler.close()
