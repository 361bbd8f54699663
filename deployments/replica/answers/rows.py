"""Next-token rows: the model's log-probability of every token after a prompt, and of given tokens after one.

Each prompt is one sequence of one token in the engine, in its batch among chats. What a mask, a temperature or a bias
changes is not in these numbers (``vocab.vllm_plugin.own_probabilities``).
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from ray.serve.llm.deployment import LLMServer
from vllm.exceptions import VLLMClientError
from vllm.inputs import TokensPrompt
from vllm.sampling_params import RequestOutputKind, SamplingParams

from deployments import ray_private
from deployments.contract import Answer, Caller, RowsItem, prompts_of, usage
from deployments.errors import EngineError
from deployments.fair_semaphore import FairSemaphore
from deployments.replica.answers.gate import to_engine_error
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.loaded_adapters import LoadedAdapters
from deployments.replica.prompt import completion_tokens
from deployments.settings.limits import MAX_SCORED_BYTES
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts, special_ids
from vocab.vllm_plugin.own_probabilities import RowsMissingError, rows_args, rows_of

ROWS_AT_ONCE: Final = 32
"""Of one request in the engine, so that one of a thousand prompts leaves room to others. Also how many go to the
ingress as one object: Serve needs a millisecond for each, however large."""

ENTRY_BYTES: Final = 32
"""Of a token with its log-probability in JSON, at most."""

LEAST_LOGPROB: Final = -9999.0
"""Instead of minus infinity in JSON, which has none; OpenAI's and vLLM's number."""

_ONE_TOKEN: Final[dict[str, Any]] = {
    "max_tokens": 1,
    # The likeliest is the cheapest to draw, and nobody reads it.
    "temperature": 0.0,
    "detokenize": False,
    "output_kind": RequestOutputKind.FINAL_ONLY,
}

Tokens: TypeAlias = list[int]

Item = TypeVar("Item")


class RowAnswerer:
    """Answers requests for rows, the log-probabilities of all next tokens, by the engine of ``server``.

    ``tokenizer`` is that of its model.

    A request has begun in ``semaphore`` when it comes here; each part of it waits for its own turn there, and what has
    been made is held without sequences.
    """

    def __init__(
        self,
        server: LLMServer,
        settings: Settings,
        tokenizer: Any,
        facts: TokenizerFacts,
        semaphore: FairSemaphore,
        adapters: LoadedAdapters,
    ) -> None:
        self._server = server
        self._semaphore = semaphore
        self._settings = settings
        self._tokenizer = tokenizer
        self._facts = facts
        self._adapters = adapters
        self._vocab_size = engine.vocab_size(server)

    async def logprobs(self, body: dict[str, Any], caller: Caller, width: int) -> AsyncGenerator[RowsItem, None]:
        """Answer a request for rows: yield a dict that describes them, then arrays of the rows in order.

        The dict is ``{"shape": [n, V or k], "prompt_tokens"}``; the arrays are (some, V) of the dtype,
        or, with ``top_logprobs``, pairs of arrays (some, k): token ids and their log-probabilities in float32, the
        likeliest first. ``width`` rows at most are at once in the engine.

        An error is one item, as ``ChatAnswerer.answer`` has it: the first, or the last of rows that broke off.
        """
        try:
            caller = await self._with_adapter(caller, body)
            prompts = await self.read(prompts_of(body), body, caller)
            num_columns = body.get("top_logprobs", self._vocab_size)
            yield {"shape": [len(prompts), num_columns], "prompt_tokens": sum(map(len, prompts))}
            for first in range(0, len(prompts), ROWS_AT_ONCE):
                rows = await self._rows(prompts[first : first + ROWS_AT_ONCE], first, caller, width)
                if "top_logprobs" in body:
                    yield await asyncio.to_thread(_top, rows, num_columns)
                else:
                    yield torch.stack(rows).to(getattr(torch, body["dtype"])).numpy()
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    async def token_logprobs(self, body: dict[str, Any], caller: Caller) -> AsyncGenerator[Answer, None]:
        """Score given tokens after a prompt: yield the whole answer, whose usage counts ``token_ids``, or an error."""
        try:
            caller = await self._with_adapter(caller, body)
            [prompt] = await self.read([body["prompt"]], body, caller)
            scored: Tokens = body["token_ids"]
            if len(prompt) + len(scored) > (limit := self.max_scored_tokens):
                message = f"'prompt' and 'token_ids' must be at most {limit} tokens together here: shorten one of them."
                raise EngineError(400, message, param="token_ids", code=engine.CONTEXT_LENGTH_EXCEEDED)
            [logprobs] = await self.scores([(prompt, scored)], "", caller, 1)
            yield {
                "object": "token_logprobs",
                "model": body.get("model", self._settings.model_id),
                "logprobs": logprobs,
                "usage": usage(len(prompt) + len(scored), 0),
            }
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    async def _with_adapter(self, caller: Caller, body: Mapping[str, Any]) -> Caller:
        name = body.get("model", self._settings.model_id)
        return caller._replace(adapter=await self._adapters.choose(name, None, None))

    async def tokens(self) -> AsyncGenerator[Answer, None]:
        """Yield the bytes of every token of the model, in base64, and which of them are special."""
        yield await asyncio.to_thread(self._token_table)

    async def rows(
        self, prompts: Sequence[Tokens], first: int, caller: Caller, width: int
    ) -> list[NDArray[np.float32]]:
        """Return the row (V,) of log-probabilities after each prompt, ``width`` at most at once in the engine.

        ``first`` is the number of the first of them among all that a request asks for.

        Raises:
            EngineError: The engine has no rows, or failed.
        """
        return [row.float().numpy() for row in await self._rows(prompts, first, caller, width)]

    async def scores(
        self, pairs: Sequence[tuple[Tokens, Tokens]], name: str, caller: Caller, width: int
    ) -> list[list[float]]:
        """Return, for each pair of a prompt and tokens, the log-probability of each of the tokens.

        It is that after the prompt and the tokens before it; ``width`` pairs at most are at once in the engine.

        ``name`` distinguishes the request's calls.

        Raises:
            EngineError: The engine failed.
        """

        async def score(number: int) -> list[float]:
            prompt, scored = pairs[number]
            params = SamplingParams(prompt_logprobs=0, **_ONE_TOKEN)
            output = await self._generate([*prompt, *scored], params, f"{caller.request_id}-{name}{number}", caller)
            entries = output.prompt_logprobs[len(prompt) :]
            values = [entry[token].logprob for entry, token in zip(entries, scored, strict=True)]
            return [max(value, LEAST_LOGPROB) for value in values]

        return await self._in_turns(score, len(pairs), caller, width)

    async def _rows(self, prompts: Sequence[Tokens], first: int, caller: Caller, width: int) -> list[torch.Tensor]:
        async def row(number: int) -> torch.Tensor:
            return await self._row(prompts[number], f"{caller.request_id}-{first + number}", caller)

        return await self._in_turns(row, len(prompts), caller, width)

    async def _in_turns(
        self, make: Callable[[int], Coroutine[Any, Any, Item]], number: int, caller: Caller, width: int
    ) -> list[Item]:
        """Make ``number`` results in order, ``width`` at once, each time in a turn of the caller's key.

        The first failure ends the others.
        """
        made: list[Item] = []
        most = self._settings.key(caller.owner).max_sequences
        while len(made) < number:
            num_together = min(width, number - len(made))
            async with self._semaphore.take(num_together, caller.owner, most, has_begun=True):
                made += await _together([make(len(made) + place) for place in range(num_together)])
        return made

    def check(self, body: Mapping[str, Any]) -> None:
        """Refuse, before its turn, a request for rows with bad token ids or too large an answer.

        Raises:
            EngineError: With status 400; ``param`` names the field.
        """
        prompts = prompts_of(dict(body))
        if "token_ids" not in body:
            self._check_size(body, len(prompts))
        for prompt in prompts:
            if not isinstance(prompt, str):
                self._check_ids(prompt, "prompt")
                self.check_length(len(prompt), "prompt")
        self._check_ids(body.get("token_ids", ()), "token_ids")

    def _check_size(self, body: Mapping[str, Any], num_prompts: int) -> None:
        """Refuse a request whose rows, or top logprobs, have more bytes than the limit (400)."""
        limit = self._settings.limits.max_rows_bytes
        row_bytes = self._vocab_size * np.dtype(body["dtype"]).itemsize
        if num_prompts * row_bytes > limit:
            raise EngineError(
                400,
                f"'prompt' must be at most {limit // row_bytes} prompts here, for the answer to each has "
                f"{self._vocab_size} numbers of {body['dtype']}: send several requests.",
                param="prompt",
            )
        num_top = body.get("top_logprobs", 1)
        if num_top > self._vocab_size:
            raise EngineError(
                400,
                f"'top_logprobs' must be an integer from 1 to {self._vocab_size}, the number of the model's tokens.",
                param="top_logprobs",
            )
        if num_prompts * num_top * ENTRY_BYTES > limit:
            raise EngineError(
                400,
                f"'top_logprobs' must be at most {max(limit // (num_prompts * ENTRY_BYTES), 1)} for so many prompts: "
                "leave it out for all tokens as bytes, or send several requests.",
                param="top_logprobs",
            )

    def _check_ids(self, tokens: Sequence[int], param: str) -> None:
        if tokens and max(tokens) >= self._vocab_size:
            raise EngineError(400, f"'{param}' must be token ids of this model, below {self._vocab_size}.", param=param)

    def check_length(self, num_tokens: int, param: str) -> None:
        """Raise ``EngineError`` where a prompt, in the field ``param``, is too long for a row after it."""
        # One is for the token that the engine draws.
        limit = min(self._settings.limits.max_input_tokens, engine.context_length(self._server) - 1)
        if num_tokens > limit:
            raise engine.too_long(f"{limit} tokens", param)

    @property
    def max_scored_tokens(self) -> int:
        """Return how many tokens a prompt and the tokens scored after it may have together."""
        limit = MAX_SCORED_BYTES // (4 * self._vocab_size)
        return min(engine.context_length(self._server) - 1, limit)

    async def read(self, prompts: Sequence[str | Tokens], body: Mapping[str, Any], caller: Caller) -> list[Tokens]:
        """Return the tokens of all prompts; texts are tokenized as prompts of completions."""
        if not isinstance(prompts[0], str):
            return list(prompts)  # type: ignore[arg-type]  # all are of one kind
        fields = {name: body[name] for name in ("add_special_tokens",) if name in body}
        asked = {"model": self._settings.model_id, "prompt": list(prompts), "max_tokens": 1, **fields}
        request = engine.engine_request(
            asked, request_id=caller.request_id, max_input_tokens=self._settings.limits.max_input_tokens
        )
        read = await completion_tokens(self._server, request)
        if not all(read):
            raise EngineError(400, "'prompt' must have a token: one of its texts has none.", param="prompt")
        return read

    async def _row(self, tokens: Tokens, request_id: str, caller: Caller) -> torch.Tensor:
        """Ask the engine for the row (V,) after one prompt; 501 where its vLLM has none."""
        params = SamplingParams(extra_args=rows_args(), **_ONE_TOKEN)
        try:
            row = rows_of(await self._generate(tokens, params, request_id, caller))
        except RowsMissingError:
            raise EngineError(
                501,
                "The engine of this service returns no rows: its vLLM is of a version that is not supported for that.",
                code="rows_unavailable",
            ) from None
        if row.shape != (1, self._vocab_size):
            raise EngineError(500, f"a row has the shape {tuple(row.shape)}")
        return row[0]

    async def _generate(self, tokens: Tokens, params: SamplingParams, request_id: str, caller: Caller) -> Any:
        """Run one prompt through the engine, at the priority of batches; return its last output."""
        prompt = TokensPrompt(prompt_token_ids=tokens)
        if (salt := self._settings.cache_salt(caller.owner)) is not None:
            prompt["cache_salt"] = salt
        try:
            # Cancelled, it is aborted in the engine. Prompts of rows are long, and chats would wait for many of them.
            priority = configuration.priority_after_chats(self._settings)
            lora = self._adapters.lora_request(caller.adapter)
            generated = ray_private.engine_client(self._server).generate(
                prompt, params, request_id, lora_request=lora, priority=priority
            )
            outputs = [output async for output in generated]
        except (ValueError, VLLMClientError) as error:
            raise EngineError(400, str(error), param="prompt") from None
        if not outputs or outputs[-1].outputs[0].finish_reason not in ("length", "stop"):
            raise EngineError(500, "The engine failed on this request; it can be sent again.", code="engine_error")
        return outputs[-1]

    def _token_table(self) -> dict[str, Any]:
        """Return all tokens of the model for JSON: their bytes, the special ones, those that end a text."""
        # Texts end with the tokenizer's token, and with those of the model's generation config.
        config = ray_private.engine_client(self._server).model_config.try_get_generation_config()
        configured = config.get("eos_token_id")
        ends = {self._tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
        spelled = [*self._facts.token_bytes, *[b""] * (self._vocab_size - len(self._facts))]
        special = sorted(token for token in special_ids(self._tokenizer) if token < len(spelled))
        for token in special:
            # Those bytes are in no text, and so not in the facts.
            spelled[token] = str(self._tokenizer.convert_ids_to_tokens(token)).encode()
        return {
            "vocab_size": len(spelled),
            "tokens": [base64.b64encode(token).decode() for token in spelled],
            "special_ids": special,
            "eos_token_ids": sorted(ends - {None}),
        }


async def _together(work: Sequence[Coroutine[Any, Any, Item]]) -> list[Item]:
    """Run coroutines at once; return their results in order.

    A failure, or cancellation, ends all of them before this returns.
    """
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _top(rows: Sequence[torch.Tensor], num_top: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the ``num_top`` likeliest tokens of each row and their log-probabilities, as two arrays (rows, k)."""
    logprobs, tokens = torch.topk(torch.stack(rows), num_top)
    return tokens.to(torch.int32).numpy(), logprobs.clamp_(min=LEAST_LOGPROB).numpy()
