"""What a search found, in the form in which vLLM's engine gives an answer: its server formats both alike.

It knows vLLM's outputs, and nothing of searches or of requests besides their prompt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.outputs import CompletionOutput, RequestOutput

from deployments.search.token_text import CUT_CHARACTER
from vocab.decoding.generator import Continuation


class SearchOutputs:
    """The outputs of one request.

    Args:
        request_id: As vLLM's server gave it.
        prompt: The rendered prompt.
        eos_token: The tokenizer's own end token, which vLLM does not name as the reason of an end; other end tokens it
            does.
        end_tokens: All of them.
    """

    def __init__(
        self, request_id: str, prompt: Mapping[str, Any], eos_token: int | None, end_tokens: frozenset[int]
    ) -> None:
        self._request_id = request_id
        self._prompt = prompt
        self._named_ends = end_tokens - {eos_token}

    def whole(self, texts: Sequence[Continuation]) -> RequestOutput:
        """The answer of these choices, or the last part of it."""
        return self._output([self._completion(index, text) for index, text in enumerate(texts)], finished=True)

    def part(self, part: Continuation) -> RequestOutput:
        """Part of the only choice; the last one unless it ends with a sentence."""
        return self._output([self._completion(0, part)], finished=part.finish != "sentence")

    def joined(self, parts: Sequence[Continuation]) -> RequestOutput:
        """The only choice, made of parts."""
        last = self._completion(0, parts[-1])
        last.text = "".join(part.text for part in parts)
        last.token_ids = [token for part in parts for token in part.tokens]
        return self._output([last], finished=True)

    def _output(self, completions: list[CompletionOutput], *, finished: bool) -> RequestOutput:
        return RequestOutput(
            request_id=self._request_id,
            prompt=self._prompt.get("prompt"),
            prompt_token_ids=self._prompt["prompt_token_ids"],
            prompt_logprobs=None,
            outputs=completions,
            finished=finished,
        )

    def _completion(self, index: int, text: Continuation) -> CompletionOutput:
        stop_reason: int | str | None = text.stop_reason
        if text.finish == "stop" and stop_reason is None and text.tokens[-1] in self._named_ends:
            stop_reason = text.tokens[-1]
        return CompletionOutput(
            index=index,
            # vLLM leaves half a character out.
            text=text.text.removesuffix(CUT_CHARACTER) if text.finish == "length" else text.text,
            token_ids=list(text.tokens),
            cumulative_logprob=None,
            logprobs=None,
            finish_reason=None if text.finish == "sentence" else text.finish,
            stop_reason=stop_reason,
        )
