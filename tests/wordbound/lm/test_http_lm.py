"""The backend over HTTP, on the real front and a model that is known."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
import torch

from tests.deployments.front import KEY, MODEL, wait_until
from tests.wordbound.lm.served import REFUSAL, STALL, Served, V, exactly, full, serving
from wordbound.errors import RefusedError, ServiceError
from wordbound.lm import HTTPLM, load_model_by_name


@pytest.fixture(scope="module")
def url_of() -> Iterator[tuple[Served, str]]:
    backend = Served()
    with serving(backend) as url:
        yield backend, url


@pytest.fixture
def served(url_of: tuple[Served, str], monkeypatch: pytest.MonkeyPatch) -> Served:
    backend, url = url_of
    backend.bodies.clear()
    backend.errors.clear()
    monkeypatch.setenv("WORDBOUND_URL", f"{url}/v1")
    monkeypatch.setenv("WORDBOUND_API_KEY", KEY)
    return backend


async def test_concurrent_calls_are_one_request_and_equal_prefixes_are_asked_once(served: Served) -> None:
    prefixes = [[1, 2], [3], [1, 2], [4, 5, 6]]
    async with HTTPLM(cache_size=10) as model:
        rows = await asyncio.gather(*(model.next_token_logprobs(ids) for ids in prefixes))
        [body] = served.bodies
        assert body["prompt"] == [[1, 2], [3], [4, 5, 6]]
        exactly(torch.stack(rows), served.model.batch_next_token_logprobs_sync(prefixes))
        exactly(await model.batch_next_token_logprobs(prefixes), torch.stack(rows))
        assert len(served.bodies) == 1, "rows are kept"
        many = [[number] for number in range(45)]
        exactly(await model.batch_next_token_logprobs(many), served.model.batch_next_token_logprobs_sync(many))
        sizes = sorted(len(one["prompt"]) for one in served.bodies[1:])
        assert sizes == [4, 20, 20], "one of the 45 was known; the three requests may arrive in any order"


def test_it_works_without_an_event_loop_and_in_float16(served: Served) -> None:
    with HTTPLM() as model:
        exactly(model.next_token_logprobs_sync([1, 2]), served.model.next_token_logprobs_sync([1, 2]))
        exactly(model.token_logprobs_sync([1], [2, 3]), served.model.token_logprobs_sync([1], [2, 3]))
        assert served.bodies[-1] == {"prompt": [1], "token_ids": [2, 3]}
        assert model.token_logprobs_sync([1], []).shape == (0,)
    with HTTPLM(dtype="float16") as model:
        row = model.next_token_logprobs_sync([1, 2])
        assert row.dtype == torch.float32
        torch.testing.assert_close(row, served.model.next_token_logprobs_sync([1, 2]), atol=4e-3, rtol=0)


async def test_given_tokens_are_scored_by_one_request(served: Served) -> None:
    async with HTTPLM() as model:
        exactly(await model.token_logprobs([1], [2, 3, 4]), served.model.token_logprobs_sync([1], [2, 3, 4]))
    assert len(served.bodies) == 1


def test_texts_are_read_by_the_service_where_there_is_no_tokenizer(served: Served) -> None:
    with load_model_by_name(MODEL, backend="http") as model:
        assert model.tokenizer.encode("ABC") == [0, 1, 2]
        assert model.tokenizer.decode([2, 1]) == "CB"
        assert (model.tokenizer.eos_token_id, model.tokenizer.all_special_ids) == (49, [48, 49])
        assert (len(model.tokenizer), len(model.byte_vocab), model.vocab_size) == (V, V, V)
        assert (model.byte_vocab[1], model.byte_vocab[1].token_id, model.str_vocab[1]) == (b"B", 1, "B")
        assert model.tokenizer.convert_ids_to_tokens([1, 2]) == ["B", "C"]
        assert model.max_prefix_len == 1024


async def test_a_service_without_room_is_asked_again_when_it_says(served: Served) -> None:
    error = full(1)
    served.errors += [error, full()]
    async with HTTPLM() as model:
        exactly(await model.next_token_logprobs([7]), served.model.next_token_logprobs_sync([7]))
    assert len(served.bodies) == 3
    served.errors += [error, error]
    with HTTPLM(max_retries=1) as model, pytest.raises(ServiceError, match="Full") as raised:
        model.next_token_logprobs_sync([7])
    assert (raised.value.status, raised.value.code) == (503, "overloaded")
    assert raised.value.request_id
    served.errors += [full(61)]
    with HTTPLM() as model, pytest.raises(ServiceError, match="Full"):
        model.next_token_logprobs_sync([7])


class Breaking(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A network whose next requests fail with ``errors``."""

    def __init__(self) -> None:
        self.errors: list[httpx.TransportError] = []
        self._sync, self._async = httpx.HTTPTransport(), httpx.AsyncHTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.errors:
            raise self.errors.pop(0)
        return self._sync.handle_request(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.errors:
            raise self.errors.pop(0)
        return await self._async.handle_async_request(request)

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()


async def test_a_request_whose_connection_breaks_is_sent_again(served: Served) -> None:
    network = Breaking()
    expected = served.model.next_token_logprobs_sync([7])
    async with HTTPLM(transport=network, max_retries=2) as model:
        network.errors += [httpx.ReadError("Bad file descriptor"), httpx.RemoteProtocolError("Server disconnected")]
        exactly(await model.next_token_logprobs([7]), expected)
        network.errors += [httpx.WriteError("Broken pipe"), httpx.ReadError("Connection reset by peer")]
        exactly(model.next_token_logprobs_sync([7]), expected)
        network.errors += [httpx.ReadError("")] * 3
        with pytest.raises(ServiceError, match=r"broke off \(ReadError"):
            await model.next_token_logprobs([7])
        network.errors += [httpx.ConnectError("Connection refused")]
        with pytest.raises(ServiceError, match="set WORDBOUND_URL"):
            model.next_token_logprobs_sync([7])
        assert not network.errors, "what cannot be reached is not asked again"


async def test_a_refusal_reaches_all_who_wait_and_says_what_to_change(served: Served) -> None:
    served.errors.append(REFUSAL)
    async with HTTPLM() as model:
        calls = [model.next_token_logprobs([number]) for number in range(3)]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, RefusedError)
            assert isinstance(error, ValueError)
            assert (str(error), error.param, error.status) == ("Too much.", "prompt", 400)
        for ids in ([], [V], [True], [1.5], [1] * 1025):
            with pytest.raises(ValueError):
                await model.next_token_logprobs(ids)  # type: ignore[arg-type]
        assert len(served.bodies) == 1, "what cannot be right is not sent"


async def test_a_call_that_is_cancelled_ends_its_request(served: Served) -> None:
    async with HTTPLM() as model:
        call = asyncio.create_task(model.next_token_logprobs([STALL]))
        await asyncio.to_thread(wait_until, lambda: served.num_open == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(wait_until, lambda: served.num_open == 0)


def test_what_is_wrong_with_the_service_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
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
        model.next_token_logprobs_sync([STALL])

    def strange(request: httpx.Request) -> httpx.Response:
        return httpx.Response(502, text="<html>")

    with pytest.raises(ServiceError, match="status 502"):
        HTTPLM(transport=httpx.MockTransport(strange))
