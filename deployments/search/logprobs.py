"""The log-probabilities of whole answers, built from the engine's outputs.

vLLM's server makes a pydantic object of each, and Ray's validates them once more: 65 µs for each token and alternative,
on the event loop and in one go, 6.5 s for eight answers of 600 tokens with 20 alternatives. They are taken out of the
outputs before and made plain JSON in a thread. Those of streams are few at a time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput
from vllm.sampling_params import SamplingParams

LOGPROBS_ARGUMENT: Final = "wordbound_logprobs"
"""In the ``extra_args`` of vLLM's sampling parameters, as far as ``ReplicaEngine``: a request's ``LogprobRecorder``."""

_LEAST: Final = -9999.0
"""What vLLM gives in place of minus infinity, which is no JSON."""

Decode = Callable[[Sequence[int]], str]
Entries = Mapping[int, Logprob]
OneAnswer = tuple[Sequence[int], Iterable[Entries | None]]


class LogprobRecorder:
    """Takes the logprobs of one request's answers from the engine's outputs, until vLLM's server has made the rest.

    Args:
        asked: The request's field ``logprobs``.
        is_chat: Whether they have the form of a chat's; else that of a completion's.
        num_top: How many alternatives are listed at each token; None for all that the engine gives.
        names_ids: Whether tokens are named by their ids.
    """

    def __init__(self, asked: bool | int, *, is_chat: bool, num_top: int | None, names_ids: bool) -> None:
        self.asked = asked
        self._is_chat = is_chat
        self._num_top = num_top
        self._names_ids = names_ids
        self._taken: list[dict[int, OneAnswer]] = []

    @classmethod
    def of(cls, request: ChatCompletionRequest | CompletionRequest) -> Self | None:
        """Return the recorder for one of vLLM's requests; None where it asks for no logprobs."""
        asked = request.logprobs
        if asked is None or asked is False:
            return None
        is_chat = isinstance(request, ChatCompletionRequest)
        num_top = (request.top_logprobs or 0) if isinstance(request, ChatCompletionRequest) else asked
        return cls(
            asked,
            is_chat=is_chat,
            num_top=None if request.logprob_token_ids else num_top,
            names_ids=bool(request.return_tokens_as_token_ids),
        )

    def ask(self, params: SamplingParams) -> None:
        """Have the answers to one prompt recorded, after those to the prompts before."""
        params.extra_args = {**(params.extra_args or {}), LOGPROBS_ARGUMENT: (self, len(self._taken))}
        self._taken.append({})

    def take(self, prompt: int, completion: CompletionOutput) -> None:
        """Take the logprobs out of a whole output of a prompt, given by its number."""
        self._taken[prompt][completion.index] = completion.token_ids, completion.logprobs or []
        completion.logprobs = None

    def attach(self, answer: dict[str, Any], decode: Decode) -> None:
        """Put them into the answer that vLLM's server has made without."""
        found = [of_prompt[index] for of_prompt in self._taken for index in sorted(of_prompt)]
        build = self._of_chat if self._is_chat else self._of_completion
        for choice, one in zip(answer["choices"], found, strict=True):
            choice["logprobs"] = build(one, decode)

    def _of_chat(self, answer: OneAnswer, decode: Decode) -> dict[str, Any]:
        content = []
        for token, entries in zip(*answer, strict=True):
            own = None if entries is None else entries.get(token)
            name = self._name(token, own, decode)
            text = name if own is None else own.decoded_token
            content.append(
                {
                    "token": name,
                    "logprob": _LEAST if own is None else _finite(own),
                    "bytes": None if text is None else list(text.encode(errors="replace")),
                    "top_logprobs": [
                        {
                            "token": (other_name := self._name(other, entry, decode)),
                            "logprob": _finite(entry),
                            "bytes": list(other_name.encode(errors="replace")),
                        }
                        for other, entry in list((entries or {}).items())[: self._num_top]
                    ],
                }
            )
        return {"content": content}

    def _of_completion(self, answer: OneAnswer, decode: Decode) -> dict[str, Any]:
        tokens, of_tokens, of_top, offsets, offset = [], [], [], [], 0
        # The own token comes first, besides the likeliest.
        num_top = None if self._num_top is None else self._num_top + 1
        for token, entries in zip(*answer, strict=True):
            own = None if entries is None else entries.get(token)
            tokens.append(self._name(token, own, decode))
            of_tokens.append(None if own is None else _finite(own))
            listed = None if entries is None else list(entries.items())[:num_top]
            of_top.append(None if listed is None else {self._name(*one, decode): _finite(one[1]) for one in listed})
            offsets.append(offset)
            offset += len(tokens[-1])
        return {"text_offset": offsets, "token_logprobs": of_tokens, "tokens": tokens, "top_logprobs": of_top}

    def _name(self, token: int, entry: Logprob | None, decode: Decode) -> str:
        if self._names_ids:
            return f"token_id:{token}"
        if entry is not None and entry.decoded_token is not None:
            return str(entry.decoded_token)
        return decode([token])


def _finite(entry: Logprob) -> float:
    return max(float(entry.logprob), _LEAST)
