"""The backend on a Ray cluster, with real handles and a replica whose model is known."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
import ray
import torch
from ray import serve

from deployments.contract import BEGUN, ReplicaRequest
from deployments.errors import EngineError
from tests.deployments.front import wait_until
from tests.wordbound.lm.served import REFUSAL, STALL, Served, V, exactly, full
from wordbound.errors import RefusedError, ServiceError
from wordbound.lm import ServeLM, load_model_by_name
from wordbound.lm.mock_lm import MockAsyncLM

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

APP = "rows"
KNOWN = MockAsyncLM(None, vocab_size=V)


class Replica:
    """As the service's, with the rows of ``KNOWN``."""

    def __init__(self) -> None:
        self._served = Served()

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield BEGUN
        async with aclosing(self._served.answer(request)) as items:
            async for item in items:
                yield item

    async def context_length(self) -> int:
        return 64

    async def fail(self, errors: list[EngineError]) -> None:
        self._served.errors += errors

    async def num_open(self) -> int:
        return self._served.num_open

    async def num_prompts(self) -> list[int]:
        return [len(body["prompt"]) for body in self._served.bodies]


@pytest.fixture(scope="module")
def handle() -> Iterator[Any]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        free: Any = serve.deployment(name="Replica", ray_actor_options={"num_cpus": 0})(Replica)
        serve.run(free.bind(), name=APP, route_prefix=None)
        yield serve.get_deployment_handle("Replica", app_name=APP)
    finally:
        serve.shutdown()
        ray.shutdown()


async def test_concurrent_calls_are_one_request_by_the_handle(handle: Any) -> None:
    async with ServeLM(APP) as model:
        prefixes = [[1, 2], [3], [1, 2], [4, 5, 6]]
        rows = await asyncio.gather(*(model.next_token_logprobs(ids) for ids in prefixes))
        exactly(torch.stack(rows), KNOWN.batch_next_token_logprobs_sync(prefixes))
        assert await handle.num_prompts.remote() == [3]
        rows[0][0] = 0  # writable
        exactly(await model.token_logprobs([1], [2, 3]), KNOWN.token_logprobs_sync([1], [2, 3]))
        assert (model.byte_vocab[1], model.tokenizer, model.max_prefix_len) == (b"B", None, 63)


def test_it_works_without_an_event_loop(handle: Any) -> None:
    with load_model_by_name(APP, backend="serve", llm_opts={"dtype": "float16"}) as model:
        row = model.next_token_logprobs_sync([1, 2])
        assert row.dtype == torch.float32
        torch.testing.assert_close(row, KNOWN.next_token_logprobs_sync([1, 2]), atol=4e-3, rtol=0)


async def test_a_replica_without_room_is_asked_again_and_a_refusal_is_told(handle: Any) -> None:
    async with ServeLM(APP, max_retries=1) as model:
        await handle.fail.remote([full()])
        exactly(await model.next_token_logprobs([7]), KNOWN.next_token_logprobs_sync([7]))
        await handle.fail.remote([full(), full()])
        with pytest.raises(ServiceError, match="Full"):
            await model.next_token_logprobs([8])
        await handle.fail.remote([REFUSAL])
        with pytest.raises(RefusedError, match="Too much") as error:
            await model.next_token_logprobs([8])
        assert error.value.param == "prompt"


async def test_a_call_that_is_cancelled_ends_its_request(handle: Any) -> None:
    async with ServeLM(APP) as model:
        call = asyncio.create_task(model.next_token_logprobs([STALL]))

        def num_open() -> int:
            return int(handle.num_open.remote().result(timeout_s=10))

        await asyncio.to_thread(wait_until, lambda: num_open() == 1, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(wait_until, lambda: num_open() == 0, 10)
