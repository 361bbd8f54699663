"""Rows that were under way when an engine died."""

import asyncio

from deployments.offline.attempts import Attempts, Gate


def test_rows_that_ended_are_no_suspects() -> None:
    attempts = Attempts()
    assert attempts.begin_new(["a", "b"]) == {}
    attempts.end(["a"])
    assert attempts.begin_new(["a", "b", "c"]) == {"b": 1}


def test_a_suspect_is_counted_when_it_begins_again_and_not_before() -> None:
    attempts = Attempts()
    attempts.begin_new(["a"])
    assert attempts.begin_new(["a"]) == attempts.begin_new(["a"]) == {"a": 1}
    attempts.begin("a")
    assert attempts.begin_new(["a"]) == {"a": 2}


async def test_one_alone_waits_for_those_inside_and_holds_back_others() -> None:
    gate, log = Gate(), list[str]()

    async def pass_through(name: str, is_alone: bool, wait: asyncio.Event) -> None:
        async with gate.alone() if is_alone else gate.together():
            log.append(f"{name} in")
            await wait.wait()
            log.append(f"{name} out")

    first, second, last = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(pass_through(f"t{number}", False, first)) for number in (1, 2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    tasks.append(asyncio.create_task(pass_through("alone", True, second)))
    await asyncio.sleep(0.01)
    tasks.append(asyncio.create_task(pass_through("t3", False, last)))
    await asyncio.sleep(0.01)
    assert log == ["t1 in", "t2 in"]
    first.set()
    await asyncio.sleep(0.01)
    assert log[2:] == ["t1 out", "t2 out", "alone in"]
    second.set()
    last.set()
    await asyncio.gather(*tasks)
    assert log[5:] == ["alone out", "t3 in", "t3 out"]


async def test_one_who_gives_up_waiting_to_be_alone_holds_nobody_back() -> None:
    gate = Gate()

    async def be_alone() -> None:
        async with gate.alone():
            raise AssertionError("nobody left")

    async with gate.together():
        waiting = asyncio.create_task(be_alone())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(1), gate.together():
            pass
