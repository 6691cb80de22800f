from __future__ import annotations

import threading
import time

import pytest

from chunkloom.errors import CancelledWorkError, ParameterError
from chunkloom.inference.slots import DeviceSlots


def test_slots_are_given_in_the_order_of_asking():
    slots, order, threads = DeviceSlots(1), [], []

    def work(i):
        with slots.hold():
            order.append(i)

    with slots.hold():
        for i in range(5):
            thread = threading.Thread(target=work, args=(i,))
            thread.start()
            threads.append(thread)
            while len(slots._queue) <= i:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_no_more_than_count_at_a_time():
    slots, inside, most, lock = DeviceSlots(2), [0], [0], threading.Lock()

    def work():
        with slots.hold():
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 2


def test_one_who_gives_up_while_waiting_leaves_the_queue():
    slots = DeviceSlots(1)

    def gone():
        raise CancelledWorkError("gone")

    with slots.hold(), pytest.raises(CancelledWorkError), slots.hold(gone):
        pass
    with slots.hold():
        pass


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_count_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("CHUNKLOOM_GPU_SLOTS", text)
    with pytest.raises(ParameterError, match=r"slot|SLOTS"):
        DeviceSlots()
