"""The watch on event loops sees what blocks them, and nothing else."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.event_loop_watch import BLOCKED, BLOCKED_S, watch_event_loop


def compute_for(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def blocked(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if message.startswith(BLOCKED)]


@pytest.mark.fault(43)
@pytest.mark.parametrize("block", [time.sleep, compute_for])
async def test_a_callback_that_blocks_the_event_loop_is_logged_with_its_place(
    block: Callable[[float], object], caplog: pytest.LogCaptureFixture
) -> None:
    watch_event_loop()
    # One that yields blocks nobody.
    await asyncio.sleep(0.8)
    assert blocked(caplog) == []
    block(1.5)
    for _ in range(100):
        await asyncio.sleep(0.05)
        if blocked(caplog):
            break
    assert "test_a_callback_that_blocks" in blocked(caplog)[0]


STARVED = """
import asyncio, logging, os, subprocess, sys, time
from tests.event_loop_watch import watch_event_loop

def compute_for(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass

async def main():
    logging.basicConfig(stream=sys.stdout)
    watch_event_loop()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        os.nice(19)
        start = time.monotonic()
        compute_for(0.04)
        print("took", time.monotonic() - start, flush=True)
        await asyncio.sleep(0.5)
    finally:
        for process in busy:
            process.kill()

asyncio.run(main())
"""


STOPPED = """
import asyncio, logging, os, subprocess, sys, time
from tests.event_loop_watch import watch_event_loop

async def main():
    logging.basicConfig(stream=sys.stdout)
    watch_event_loop()
    await asyncio.sleep(0.3)
    start = time.monotonic()
    command = f"sleep 0.1; kill -STOP {os.getpid()}; sleep 1.5; kill -CONT {os.getpid()}"
    stops = subprocess.Popen(["sh", "-c", command])
    # It sleeps for 0.3 s of this, and is stopped for the rest.
    time.sleep(1.8)
    print("took", time.monotonic() - start, flush=True)
    await asyncio.sleep(0.5)
    stops.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "program", [pytest.param(STARVED, marks=pytest.mark.stress), STOPPED], ids=["starved", "stopped"]
)
def test_a_callback_that_waits_for_a_processor_blocks_nothing(program: str) -> None:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    word, seconds = ran.stdout.split()
    assert word == "took", "something was logged"
    assert float(seconds) > BLOCKED_S, "it did not wait"


def test_the_watch_ends_with_its_event_loop() -> None:
    async def start() -> threading.Thread:
        return watch_event_loop()

    thread = asyncio.run(start())
    thread.join(10)
    assert not thread.is_alive()
