"""How vLLM's processes wait for each other on a CPU, on vLLM's own queue."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue, SpinCondition
from vllm.platforms import current_platform

from vocab.vllm_plugin import cpu_wait

NUM_MESSAGES = 20
PAUSE_S = 0.02


@pytest.fixture(autouse=True)
def num_waits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often readers waited, in one item; ``SpinCondition`` is as vLLM has it again after each test."""
    count = [0]
    original: Callable[..., None] = SpinCondition.wait

    def counted(condition: Any, timeout_ms: int | None = None) -> None:
        count[0] += 1
        original(condition, timeout_ms)

    monkeypatch.setattr(SpinCondition, "wait", counted)
    return count


def read_all() -> list[int]:
    """What a reader gets of a writer that pauses before each message."""
    writer = MessageQueue(n_reader=1, n_local_reader=1)
    readers: list[MessageQueue] = []
    opened = threading.Thread(target=lambda: readers.append(open_reader(writer)))
    opened.start()
    writer.wait_until_ready()
    opened.join()
    [reader] = readers

    def write() -> None:
        for number in range(NUM_MESSAGES):
            time.sleep(PAUSE_S)
            writer.enqueue(number)

    thread = threading.Thread(target=write)
    thread.start()
    read = [reader.dequeue(timeout=20) for _ in range(NUM_MESSAGES)]
    thread.join()
    for queue in (writer, reader):
        # vLLM leaves it to the end of the process.
        queue.local_socket.context.destroy(linger=0)
    return read


def open_reader(writer: MessageQueue) -> MessageQueue:
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    reader.wait_until_ready()
    return reader


@pytest.mark.parametrize("rings", [True, False])
def test_a_reader_sleeps_between_messages_and_misses_none(
    num_waits: list[int], monkeypatch: pytest.MonkeyPatch, rings: bool
) -> None:
    cpu_wait.install()
    cpu_wait.install()
    if not rings:
        monkeypatch.setattr(SpinCondition, "notify", lambda condition: None)
    assert read_all() == list(range(NUM_MESSAGES))
    # Without it the reader asks all the time, and fails this.
    assert NUM_MESSAGES / 2 < num_waits[0] < 20 * NUM_MESSAGES


def test_a_gpu_is_waited_for_as_vllm_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda platform: False)
    before = SpinCondition.wait
    cpu_wait.install()
    assert SpinCondition.wait is before


def test_where_vllm_has_changed_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.distributed.device_communicators.shm_broadcast", None)
    before = SpinCondition.wait
    cpu_wait.install()
    assert SpinCondition.wait is before
