"""``HTTPLM``: next-token distributions of a model that a wordbound service serves, over HTTP."""

import asyncio
import base64
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import httpx
import torch

from wordbound.lm.base import AsyncLM
from wordbound.lm.gathering import Ids
from wordbound.lm.loading import load_tokenizer
from wordbound.lm.tokens import Token


class ServerError(RuntimeError):
    """The service did not answer, or failed.

    Attributes:
        status: Of the answer, None where there was none.
        code: The service's name for the error.
        param: The field of the request at fault.
        request_id: By which the service's log names the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.request_id = request_id


class RefusedError(ServerError, ValueError):
    """The service refuses the request as it is; the message says what to change."""


@dataclass(frozen=True)
class ServedTokens:
    """The answer of ``GET /v1/tokens``. ``strings`` have U+FFFD in place of what is not UTF-8."""

    tokens: list[Token]
    strings: list[str]
    special_ids: tuple[int, ...]
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Decode the JSON of ``GET /v1/tokens``, which has the tokens in base64."""
        tokens = [Token(token_id, base64.b64decode(spelled)) for token_id, spelled in enumerate(table["tokens"])]
        strings = [bytes(token).decode(errors="replace") for token in tokens]
        return cls(tokens, strings, tuple(table["special_ids"]), tuple(table["eos_token_ids"]))

    def __len__(self) -> int:
        return len(self.tokens)


URL_VARIABLE: Final = "WORDBOUND_URL"
KEY_VARIABLE: Final = "WORDBOUND_API_KEY"
_USUAL_URL: Final = "http://127.0.0.1:8000"
"""The demo's."""

_LONGEST_WAIT_S: Final = 60.0
"""Before a request is sent again; the service asks for no more."""

_RETRIED: Final = (429, 503)

_BROKEN: Final = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""Of a connection that was made: the server ends an idle one, or httpx's pool does when another thread is about to use
it (https://github.com/encode/httpcore/issues/1110). A request that only reads may be sent again."""


class HTTPLM(AsyncLM):
    """A model behind the routes ``/v1/logprobs``, ``/v1/token_logprobs`` and ``/v1/tokens``.

    Concurrent calls become one request of up to ``batch_size`` prefixes. A call that is cancelled closes its request,
    whose rows then leave the engine. Connections belong to an event loop: leave it by ``async with`` or ``aclose``.

    Args:
        base_url: The service's address, with or without ``/v1``. None: ``WORDBOUND_URL``, else the demo's.
        api_key: Its key. None: ``WORDBOUND_API_KEY``, else none is sent.
        model: The name that ``GET /v1/models`` lists; None for the one that is served.
        tokenizer: A tokenizer of transformers, or the name or folder of one. None: texts are tokenized by the service,
            and ``tokenizer`` is a ``ServedTokenizer``.
        dtype: In which rows travel, "float32" or "float16", which takes half of the bytes. They arrive as float32.
        request_timeout: How long, in seconds, one answer may take.
        max_retries: How often a request is sent again that the service refused for want of room (429, 503), or whose
            connection broke. The service says when; at most a minute is waited each time.
        transport: A transport of httpx's for both kinds of clients, for tests.
        options: Options of ``AsyncLM``.

    Raises:
        ServerError: The service cannot be reached, or refuses the key.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        model: str | None = None,
        tokenizer: Any = None,
        dtype: str = "float32",
        request_timeout: float = 600.0,
        max_retries: int = 5,
        transport: Any = None,
        **options: Any,
    ) -> None:
        if dtype not in ("float32", "float16"):
            raise ValueError(f"dtype must be 'float32' or 'float16', not {dtype!r}")
        url = (base_url or os.environ.get(URL_VARIABLE) or _USUAL_URL).rstrip("/").removesuffix("/v1")
        key = api_key or os.environ.get(KEY_VARIABLE)
        self.base_url = url
        self.model = model
        self.dtype = dtype
        self._max_retries = max_retries
        self._client_options: dict[str, Any] = {
            "base_url": url,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "timeout": request_timeout,
            "transport": transport,
            # One for all clients: it takes 20 ms to make.
            "verify": httpx.create_ssl_context(),
        }
        self._client = httpx.Client(**self._client_options)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        try:
            cards = self._ask("GET", "/v1/models").json()["data"]
            table = self._ask("GET", "/v1/tokens").json()
        except BaseException:
            self._client.close()
            raise
        self.model_id = str(table["model"])
        if model not in (None, self.model_id):
            self._client.close()
            raise ValueError(f"{url} serves {self.model_id!r}, not {model!r}: leave the model out, or give that name")
        limits = [int(card["max_input_tokens"]) for card in cards]
        limits += [int(card["max_model_len"]) - 1 for card in cards if card.get("max_model_len")]
        self.served = ServedTokens.from_table(table)
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer(tokenizer)
        super().__init__(
            ServedTokenizer(self) if tokenizer is None else tokenizer,
            vocab_size=len(self.served),
            max_prefix_len=min(limits, default=None),
            **options,
        )
        if tokenizer is None:
            self.__dict__["_vocab"] = self.served.tokens, self.served.strings

    @classmethod
    def from_name(cls, model_name: str, **options: Any) -> Self:
        """Connect to a model by the address of its service, or by its name there.

        With a name, ``base_url`` or ``WORDBOUND_URL`` is the address. ``options`` are those of ``HTTPLM``.
        """
        if model_name.startswith(("http://", "https://")):
            return cls(model_name, **options)
        return cls(model=model_name, **options)

    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:  # noqa: ARG002
        return self._rows_of(await self._ask_async("/v1/logprobs", self._body(prefixes)), len(prefixes))

    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:  # noqa: ARG002
        return self._rows_of(self._ask("POST", "/v1/logprobs", self._body(prefixes)), len(prefixes))

    async def token_logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor:
        prompt, ids, _ = self._checked_for_scoring(prompt_ids, token_ids, lora_name)
        if not ids:
            return torch.empty(0)
        answer = await self._ask_async("/v1/token_logprobs", {"prompt": prompt, "token_ids": ids})
        return torch.tensor(answer.json()["logprobs"], dtype=torch.float32)

    def token_logprobs_sync(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor:
        prompt, ids, _ = self._checked_for_scoring(prompt_ids, token_ids, lora_name)
        if not ids:
            return torch.empty(0)
        answer = self._ask("POST", "/v1/token_logprobs", {"prompt": prompt, "token_ids": ids})
        return torch.tensor(answer.json()["logprobs"], dtype=torch.float32)

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST request in JSON and return the JSON answer. Blocks, also inside an event loop."""
        result: dict[str, Any] = self._ask("POST", path, body).json()
        return result

    async def aclose(self) -> None:
        """Close the connections of this event loop, and do what ``cleanup`` does."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
        self.cleanup()

    def cleanup(self) -> None:
        super().cleanup()
        self._client.close()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _body(self, prefixes: Sequence[Ids]) -> dict[str, Any]:
        return {"prompt": [list(ids) for ids in prefixes], "dtype": self.dtype}

    def _rows_of(self, answer: httpx.Response, num_rows: int) -> torch.Tensor:
        """Decode the bytes of an answer into rows, float32 (n, V); ServerError for a wrong size."""
        shape = (num_rows, self.vocab_size)
        dtype = {"float32": torch.float32, "float16": torch.float16}[self.dtype]
        if len(answer.content) != num_rows * self.vocab_size * dtype.itemsize:
            raise ServerError(
                f"{self.base_url} answered with {len(answer.content)} bytes, which are not rows of {shape}"
            )
        # A copy, for bytes cannot be changed and a tensor may be.
        return torch.frombuffer(bytearray(answer.content), dtype=dtype).reshape(shape).float()

    # Requests.

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """Send a request, again while the service is busy or a connection breaks; return the answer, or raise."""
        for attempt in range(self._max_retries + 1):
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.HTTPError as error:
                if isinstance(error, _BROKEN) and attempt < self._max_retries:
                    continue
                raise self._unreachable(error) from error
            if (wait_s := self._wait_s(answer, attempt)) is None:
                break
            time.sleep(wait_s)
        return self._check(answer)

    async def _ask_async(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a POST request as ``_ask`` does, without blocking the event loop."""
        for attempt in range(self._max_retries + 1):
            try:
                answer = await self._client_of_loop().post(path, json=body)
            except httpx.HTTPError as error:
                if isinstance(error, _BROKEN) and attempt < self._max_retries:
                    continue
                raise self._unreachable(error) from error
            if (wait_s := self._wait_s(answer, attempt)) is None:
                break
            await asyncio.sleep(wait_s)
        return self._check(answer)

    def _client_of_loop(self) -> httpx.AsyncClient:
        """Return the HTTP client of the running event loop, created on first use."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = httpx.AsyncClient(**self._client_options)
        return client

    def _wait_s(self, answer: httpx.Response, attempt: int) -> float | None:
        """Return the seconds to wait before a refused request is sent again; None where it is not."""
        if answer.status_code not in _RETRIED or attempt == self._max_retries:
            return None
        header = answer.headers.get("retry-after", "")
        wait_s = float(header) if header.isdecimal() else 1.0
        # Longer is a rate that is used up for now: who asked should know.
        return wait_s if wait_s <= _LONGEST_WAIT_S else None

    def _unreachable(self, error: httpx.HTTPError) -> ServerError:
        """Return the error for a service that timed out or was not reached, with what to change."""
        if isinstance(error, httpx.TimeoutException):
            timeout = self._client_options["timeout"]
            return ServerError(f"{self.base_url} did not answer within {timeout:g} s: give a larger request_timeout")
        return ServerError(
            f"{self.base_url} cannot be reached ({type(error).__name__}: {error}): give base_url, or set {URL_VARIABLE}"
        )

    def _check(self, answer: httpx.Response) -> httpx.Response:
        """Return a successful answer; else raise its error as RefusedError or ServerError."""
        if answer.status_code < 400:
            return answer
        try:
            fault = answer.json()["error"]
            message, param, code = str(fault["message"]), fault.get("param"), fault.get("code")
        except (ValueError, KeyError, TypeError, AttributeError):
            message, param, code = f"{self.base_url} answered with status {answer.status_code}", None, None
        if answer.status_code == 401:
            message += f" Give api_key, or set {KEY_VARIABLE}."
        request_id = answer.headers.get("x-request-id")
        kind = RefusedError if answer.status_code in (400, 404, 413, 422) else ServerError
        raise kind(message, status=answer.status_code, param=param, code=code, request_id=request_id)


class ServedTokenizer:
    """A tokenizer that has texts encoded and decoded by the service over HTTP. Blocks, also in an event loop."""

    def __init__(self, model: HTTPLM) -> None:
        self._model = model

    @property
    def eos_token_id(self) -> int | None:
        """The first of ``eos_token_ids``."""
        return min(self._model.served.eos_token_ids, default=None)

    @property
    def all_special_ids(self) -> list[int]:
        return list(self._model.served.special_ids)

    def __len__(self) -> int:
        return len(self._model.served)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text, as the service encodes it."""
        body = {"prompt": text, "add_special_tokens": add_special_tokens}
        tokens: list[int] = self._model.ask("/tokenize", body)["tokens"]
        return tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids, as the service decodes them."""
        return str(self._model.ask("/detokenize", {"tokens": list(token_ids)})["prompt"])

    def convert_ids_to_tokens(self, token_ids: Any) -> Any:
        """Return the string of a token id, or the strings of several."""
        strings = self._model.served.strings
        return strings[token_ids] if isinstance(token_ids, int) else [strings[token] for token in token_ids]
