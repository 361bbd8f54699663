"""The backend over HTTP, on the real front and a model that is known; what is asked again is in test_client."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import torch

from deployments.contract import ReplicaRequest, RowsRequest, prompts_of
from deployments.errors import EngineError
from tests.deployments.front import KEY, MODEL, app_of, wait_until
from tests.deployments.stand_in import NUM_TOKENS, StandIn, row
from tests.wordbound.cli.conftest import serving
from wordbound import RefusedError, ServiceError
from wordbound.lm import HTTPLM, load_model_by_name

STALL = [7, 7]
"""A prefix whose row never comes."""
FULL = EngineError(503, "Full.", code="overloaded", retry_after_s=1)


@dataclass
class Served(StandIn):
    """Answers rows after the errors that a test put into ``errors``; ``asked`` are the bodies for them."""

    errors: list[EngineError] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    num_open: int = 0

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        self.num_open += 1
        try:
            if isinstance(request, RowsRequest):
                self.asked.append(dict(request.body))
                if self.errors:
                    yield self.errors.pop(0)
                    return
                if STALL in prompts_of(request.body):
                    await asyncio.sleep(3600)
            async with aclosing(super().answer(request)) as items:
                async for item in items:
                    yield item
        finally:
            self.num_open -= 1


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    backend = Served()
    for url in serving(app_of(backend)):
        monkeypatch.setenv("WORDBOUND_URL", f"{url}/v1")
        monkeypatch.setenv("WORDBOUND_API_KEY", KEY)
        yield backend


async def test_concurrent_calls_are_one_request_and_equal_prefixes_are_asked_once(served: Served) -> None:
    async with HTTPLM(cache_size=10) as model:
        rows = await asyncio.gather(*(model.next_token_logprobs(ids) for ids in ([1, 2], [3], [1, 2], [4, 5, 6])))
        assert [body["prompt"] for body in served.asked] == [[[1, 2], [3], [4, 5, 6]]]
        assert torch.stack(rows).tolist() == [row(0), row(1), row(0), row(2)]
        assert (await model.batch_next_token_logprobs([[4, 5, 6], [3]])).tolist() == [row(2), row(1)]
        assert len(served.asked) == 1, "rows are kept"
        await model.batch_next_token_logprobs([[one, other] for one in range(5) for other in range(9)])
        sizes = sorted(len(body["prompt"]) for body in served.asked[1:])
        assert sizes == [4, 20, 20], "one of the 45 was known; the three requests may arrive in any order"
        assert (await model.token_logprobs([1], [2, 3, 4])).tolist() == [-2, -3, -4]
    assert len(served.asked) == 5, "given tokens are scored by one request"


def test_it_works_without_an_event_loop_and_in_float16(served: Served) -> None:
    with HTTPLM() as model:
        assert model.next_token_logprobs_sync([1, 2]).tolist() == row(0)
        assert model.token_logprobs_sync([1], [2, 3]).tolist() == [-2, -3]
        assert served.asked[-1] == {"prompt": [1], "token_ids": [2, 3]}
        assert model.token_logprobs_sync([1], []).shape == (0,)
    with HTTPLM(dtype="float16") as model:
        found = model.next_token_logprobs_sync([1, 2])
        assert (found.dtype, found.tolist()) == (torch.float32, row(0))
    assert served.asked[-1]["dtype"] == "float16"


def test_texts_are_read_by_the_service_where_there_is_no_tokenizer(served: Served) -> None:
    with load_model_by_name(MODEL, backend="http") as model:
        assert model.tokenizer.encode("ABC") == [65, 66, 67]
        assert model.tokenizer.decode([67, 66]) == "CB"
        assert (model.tokenizer.eos_token_id, model.tokenizer.all_special_ids) == (9, [9])
        assert len(model.tokenizer) == len(model.byte_vocab) == model.vocab_size == NUM_TOKENS
        assert (model.byte_vocab[1], model.byte_vocab[1].token_id, model.str_vocab[1]) == (b"B", 1, "B")
        assert model.tokenizer.convert_ids_to_tokens([1, 2]) == ["B", "C"]
        assert model.max_prefix_len == 1024


async def test_a_failure_reaches_all_who_wait_and_says_what_to_change(served: Served) -> None:
    served.errors += [FULL, EngineError(400, "Too much.", param="prompt")]
    async with HTTPLM() as model:
        calls = [model.next_token_logprobs([number]) for number in range(3)]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, RefusedError)
            assert (str(error), error.param, error.status) == ("Too much.", "prompt", 400)
        for ids in ([], [NUM_TOKENS], [True], [1.5], [1] * 1025):
            with pytest.raises(ValueError):
                await model.next_token_logprobs(ids)  # type: ignore[arg-type]
        assert len(served.asked) == 2, "who was full is asked again, and what cannot be right is not sent"
    served.errors += [FULL, FULL]
    with HTTPLM(max_retries=1) as model, pytest.raises(ServiceError, match="Full") as raised:
        model.next_token_logprobs_sync([7])
    assert (raised.value.status, raised.value.code) == (503, "overloaded")
    assert raised.value.request_id


async def test_a_call_that_is_cancelled_ends_its_request(served: Served) -> None:
    async with HTTPLM() as model:
        call = asyncio.create_task(model.next_token_logprobs(STALL))
        await asyncio.to_thread(wait_until, lambda: served.num_open == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(wait_until, lambda: served.num_open == 0)


def test_what_is_wrong_with_the_service_is_told(served: Served) -> None:
    with pytest.raises(ServiceError, match="WORDBOUND_API_KEY") as error:
        HTTPLM(api_key="wrong")
    assert error.value.status == 401
    with pytest.raises(ValueError, match="serves 'stand-in', not 'other'"):
        load_model_by_name("other", backend="http")
    with pytest.raises(ServiceError, match="set WORDBOUND_URL"):
        HTTPLM("http://127.0.0.1:9")
    with pytest.raises(ValueError, match="dtype"):
        HTTPLM(dtype="bfloat16")  # type: ignore[arg-type]
    with HTTPLM(request_timeout=0.5) as model, pytest.raises(ServiceError, match="larger timeout"):
        model.next_token_logprobs_sync(STALL)
    with pytest.raises(ServiceError, match="status 502"):
        HTTPLM(transport=httpx2.MockTransport(lambda _: httpx2.Response(502, text="<html>")))
