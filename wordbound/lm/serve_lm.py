"""``ServeLM``: next-token distributions of a model that a wordbound application serves on this Ray cluster.

As ``HTTPLM``, without HTTP: requests go by Serve's handle to a replica, and rows come through Ray's object store. For
programs that run on the cluster; keys and their limits are those of the routes and do not hold here.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Self
from uuid import uuid4

import ray
import torch
from ray import serve
from typing_extensions import override

from deployments.contract import BEGUN, Caller, ReplicaRequest, RowsRequest, TokensRequest
from deployments.errors import EngineError
from wordbound.errors import RefusedError, ServiceError
from wordbound.lm.base import AsyncLM
from wordbound.lm.gathering import Ids, run_sync
from wordbound.lm.http_lm import ServedTokens
from wordbound.lm.loading import load_tokenizer

_DEPLOYMENT: Final = "Replica"
_OVERLOADED: Final = 503
_NOTHING: Final = EngineError(500, "the replica answered nothing")


class ServeLM(AsyncLM):
    """A model that a Serve application of this Ray cluster serves.

    Args:
        app_name: The application's name.
        tokenizer: A tokenizer of transformers, or the name or folder of one. None: there is none, and ``byte_vocab``
            is the service's own.
        owner: In whose name the engine is asked: keys take turns in a replica and do not share what it caches of
            prompts.
        dtype: In which rows travel, "float32" or "float16". They arrive as float32.
        max_retries: How often a request is sent again that a replica has no room for, when it says.
        options: Options of ``AsyncLM``.

    Raises:
        ServiceError: There is no such application, or it does not answer.
    """

    def __init__(
        self,
        app_name: str = "default",
        *,
        tokenizer: Any = None,
        owner: str = "default",
        dtype: str = "float32",
        max_retries: int = 5,
        **options: Any,
    ) -> None:
        if dtype not in ("float32", "float16"):
            raise ValueError(f"dtype must be 'float32' or 'float16', not {dtype!r}")
        if not ray.is_initialized():
            ray.init(address="auto")
        self._handle = serve.get_deployment_handle(_DEPLOYMENT, app_name=app_name).options(stream=True)
        self._owner = owner
        self._dtype = dtype
        self._max_retries = max_retries
        table = run_sync(self._call_for_one(TokensRequest({}, self._caller())))
        length = run_sync(self._length(app_name))
        self.served = ServedTokens.from_table(table)
        if isinstance(tokenizer, str):
            tokenizer = load_tokenizer(tokenizer)
        super().__init__(tokenizer, vocab_size=len(self.served), max_prefix_len=length - 1, **options)
        if tokenizer is None:
            self.__dict__["_vocab"] = self.served.tokens, self.served.strings

    @classmethod
    def from_name(cls, model_name: str, **options: Any) -> Self:
        """Connect to a model by its application's name. ``options`` are those of ``ServeLM``."""
        return cls(model_name, **options)

    @override
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        body = {"prompt": [list(ids) for ids in prefixes], "dtype": self._dtype}
        rows = torch.empty(len(prefixes), self.vocab_size)
        start = 0
        _, *arrays = await self._call_with_retries(RowsRequest(body, self._caller()))
        for array in arrays:
            # Its memory is Ray's, which lets go of it with the array, and which may not be written.
            rows.numpy()[start : start + len(array)] = array
            start += len(array)
        if start != len(rows):
            raise ServiceError(f"the replica answered with {start} rows of {len(rows)}")
        return rows

    @override
    async def token_logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor:
        prompt, ids, _ = self._checked_for_scoring(prompt_ids, token_ids, lora_name)
        if not ids:
            return torch.empty(0)
        body = {"prompt": list(prompt), "token_ids": list(ids)}
        result = await self._call_for_one(RowsRequest(body, self._caller()))
        return torch.tensor(result["logprobs"], dtype=torch.float32)

    async def _length(self, app_name: str) -> int:
        """Ask a replica for the model's context length, in tokens."""
        return int(await serve.get_deployment_handle(_DEPLOYMENT, app_name=app_name).context_length.remote())

    def _caller(self) -> Caller:
        return Caller(self._owner, f"own-{uuid4().hex}")

    async def _call_for_one(self, request: ReplicaRequest) -> dict[str, Any]:
        """Send a request to a replica and return the only item of its answer."""
        [item] = await self._call_with_retries(request)
        result: dict[str, Any] = item
        return result

    async def _call_with_retries(self, request: ReplicaRequest) -> list[Any]:
        """Send a request to a replica, again where there was no room for it, and return the items of its answer."""
        num_left = self._max_retries
        while True:
            items = await self._answer(request)
            error = items[-1] if items else _NOTHING
            if not isinstance(error, EngineError):
                return items
            if error.status != _OVERLOADED or num_left == 0:
                kind = RefusedError if error.status == 400 else ServiceError
                raise kind(error.message, status=error.status, param=error.param, code=error.code)
            num_left -= 1
            await asyncio.sleep(error.retry_after_s or 1)

    async def _answer(self, request: ReplicaRequest) -> list[Any]:
        """Send a request to a replica once and return the items of its answer; cancel it when cancelled."""
        response = self._handle.answer.remote(request)
        try:
            return [item async for item in response if not isinstance(item, str) or item != BEGUN]
        except asyncio.CancelledError:
            response.cancel()
            raise
