"""``HTTPLM``: next-token distributions of a model that a wordbound service serves, over HTTP."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from wordbound.client import AsyncClient, Client
from wordbound.errors import ServiceError
from wordbound.lm.base import AsyncLM
from wordbound.lm.gathering import Ids, PerLoop
from wordbound.lm.loading import load_tokenizer
from wordbound.lm.tokens import Token
from wordbound.routes import Dtype


class HTTPLM(AsyncLM):
    """A model behind the routes ``/v1/logprobs``, ``/v1/token_logprobs`` and ``/v1/tokens``.

    Concurrent calls become one request of up to ``batch_size`` prefixes. A call that is cancelled closes its request,
    whose rows then leave the engine. Connections belong to an event loop: leave it by ``async with`` or ``aclose``.

    Args:
        base_url: The service's address, with or without ``/v1``. None: ``WORDBOUND_URL``, else the demo's.
        api_key: Its key. None: ``WORDBOUND_API_KEY``, else the demo's for a service on this machine.
        model: The name that ``GET /v1/models`` lists; None for the one that is served.
        tokenizer: A tokenizer of transformers, or the name or folder of one. None: texts are tokenized by the service,
            and ``tokenizer`` is a ``ServedTokenizer``.
        dtype: In which rows travel, "float32" or "float16", which takes half of the bytes. They arrive as float32.
        request_timeout: The longest wait for an answer to begin, or go on, in seconds.
        max_retries: How often a request is sent again, as ``wordbound.Client`` does.
        transport: A transport of httpx2's for both kinds of clients, for tests.
        options: Options of ``AsyncLM``.

    Raises:
        ServiceError: The service cannot be reached, or refuses the key.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        model: str | None = None,
        tokenizer: Any = None,
        dtype: Dtype = "float32",
        request_timeout: float = 600.0,
        max_retries: int = 5,
        transport: Any = None,
        **options: Any,
    ) -> None:
        if dtype not in ("float32", "float16"):
            raise ValueError(f"dtype must be 'float32' or 'float16', not {dtype!r}")
        self.model = model
        self.dtype = dtype
        self._client_options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": api_key,
            "timeout": request_timeout,
            "max_retries": max_retries,
            "transport": transport,
        }
        self.client = Client(**self._client_options)
        self._clients = PerLoop[AsyncClient]()
        self.base_url = url = self.client.url
        try:
            cards = self.client.get("/v1/models")["data"]
            table = self.client.tokens()
        except BaseException:
            self.client.close()
            raise
        self.model_id = str(table["model"])
        if model not in (None, self.model_id):
            self.client.close()
            raise ValueError(f"{url} serves {self.model_id!r}, not {model!r}: leave the model out, or give that name")
        limits = [int(card["max_input_tokens"]) for card in cards]
        limits += [int(card["max_model_len"]) - 1 for card in cards if card.get("max_model_len")]
        served = ServedTokenizer(self.client, table)
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer(tokenizer)
        super().__init__(
            served if tokenizer is None else tokenizer,
            vocab_size=len(served),
            max_prefix_len=min(limits, default=None),
            **options,
        )
        if tokenizer is None:
            self.__dict__["_vocab"] = served.tokens, served.strings

    @classmethod
    def from_name(cls, model_name: str, **options: Any) -> Self:
        """Connect to a model by the address of its service, or by its name there.

        With a name, ``base_url`` or ``WORDBOUND_URL`` is the address. ``options`` are those of ``HTTPLM``.
        """
        if model_name.startswith(("http://", "https://")):
            return cls(model_name, **options)
        return cls(model=model_name, **options)

    @override
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        client = self._clients.of_loop(partial(AsyncClient, **self._client_options))
        return self._checked_rows(await client.logprobs(prefixes, dtype=self.dtype), len(prefixes))

    @override
    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        return self._checked_rows(self.client.logprobs(prefixes, dtype=self.dtype), len(prefixes))

    @override
    async def compute_scores(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        client = self._clients.of_loop(partial(AsyncClient, **self._client_options))
        answer = await client.token_logprobs(prompt, ids)
        return torch.tensor(answer["logprobs"], dtype=torch.float32)

    @override
    def compute_scores_sync(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        return torch.tensor(self.client.token_logprobs(prompt, ids)["logprobs"], dtype=torch.float32)

    async def aclose(self) -> None:
        """Close the connections of this event loop, and do what ``cleanup`` does."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
        self.cleanup()

    @override
    def cleanup(self) -> None:
        super().cleanup()
        self.client.close()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _checked_rows(self, rows: NDArray[np.float32], num_rows: int) -> torch.Tensor:
        if rows.shape != (num_rows, self.vocab_size):
            raise ServiceError(f"{self.base_url} answered with rows of {rows.shape}")
        return torch.from_numpy(rows)


class ServedTokenizer:
    """A tokenizer that has texts encoded and decoded by the service over HTTP. Blocks, also in an event loop.

    ``table`` is the answer of ``GET /v1/tokens``. Strings have U+FFFD in place of what is not UTF-8.
    """

    def __init__(self, client: Client, table: Mapping[str, Any]) -> None:
        self._client = client
        self.tokens = [Token(token_id, base64.b64decode(spelled)) for token_id, spelled in enumerate(table["tokens"])]
        self.strings = [bytes(token).decode(errors="replace") for token in self.tokens]
        self.all_special_ids = list(table["special_ids"])
        self.eos_token_id = min(table["eos_token_ids"], default=None)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text, as the service encodes it."""
        body = {"prompt": text, "add_special_tokens": add_special_tokens}
        tokens: list[int] = self._client.post("/tokenize", body, is_safe=True)["tokens"]
        return tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids, as the service decodes them."""
        return str(self._client.post("/detokenize", {"tokens": list(token_ids)}, is_safe=True)["prompt"])

    def convert_ids_to_tokens(self, token_ids: Any) -> Any:
        """Return the string of a token id, or the strings of several."""
        return self.strings[token_ids] if isinstance(token_ids, int) else [self.strings[token] for token in token_ids]
