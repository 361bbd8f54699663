"""Pieces of streams: a lone stream gets each token at once, many get vLLM's joined outputs, and nothing is lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.output_processor import RequestOutputCollector

from deployments.search.pacing import StreamPacer

NUM_TOKENS = 20
NUM_OTHERS = 400
"""Enough for the longest interval."""


def token(number: int) -> RequestOutput:
    is_last = number == NUM_TOKENS - 1
    completion = CompletionOutput(0, f"{number} ", [number], None, None, finish_reason="length" if is_last else None)
    return RequestOutput("r", None, [1], None, [completion], is_last)


async def engine_outputs(queue: RequestOutputCollector) -> AsyncGenerator[RequestOutput, None]:
    """As vLLM's ``AsyncLLM.generate``."""
    while True:
        output = queue.get_nowait() or await queue.get()
        assert isinstance(output, RequestOutput)
        yield output
        if output.finished:
            return


def is_finished(output: RequestOutput) -> bool:
    return bool(output.finished)


async def never() -> AsyncGenerator[RequestOutput, None]:
    yield token(0)
    await asyncio.Event().wait()


async def parts(pacer: StreamPacer) -> list[list[int]]:
    """Write a token each millisecond; return the tokens of each part."""
    queue = RequestOutputCollector(RequestOutputKind.DELTA, "r")

    async def write() -> None:
        for number in range(NUM_TOKENS):
            queue.put(token(number))
            await asyncio.sleep(0.001)

    task = asyncio.create_task(write())
    found, text = [], ""
    async for output in pacer.pace(engine_outputs(queue), is_finished):
        found.append(list(output.outputs[0].token_ids))
        text += output.outputs[0].text
    await task
    assert [number for part in found for number in part] == list(range(NUM_TOKENS))
    assert text == "".join(f"{number} " for number in range(NUM_TOKENS))
    return found


async def test_a_lone_stream_gets_each_token_at_once() -> None:
    assert len(await parts(StreamPacer())) == NUM_TOKENS


async def test_of_many_streams_each_gets_its_first_token_at_once_and_then_larger_parts() -> None:
    pacer = StreamPacer()
    others = [pacer.pace(never(), is_finished) for _ in range(NUM_OTHERS)]
    for other in others:
        await anext(other)
    found = await parts(pacer)
    assert found[0] == [0]
    assert len(found) < NUM_TOKENS / 2
    for other in others:
        await other.aclose()
    # Those that are closed count no more.
    assert len(await parts(pacer)) == NUM_TOKENS


async def test_a_stream_that_is_closed_or_cancelled_while_it_waits_closes_the_engines() -> None:
    pacer, closed = StreamPacer(), []

    async def outputs() -> AsyncGenerator[RequestOutput, None]:
        try:
            for number in range(NUM_TOKENS - 1):
                yield token(number)
        finally:
            closed.append(True)

    async def read() -> None:
        async with aclosing(pacer.pace(outputs(), is_finished)) as paced:
            async for _ in paced:
                pass

    other = pacer.pace(never(), is_finished)
    await anext(other)
    waiting = asyncio.create_task(read())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    async with aclosing(pacer.pace(outputs(), is_finished)) as paced:
        await anext(paced)
    assert len(closed) == 2
    await other.aclose()
