"""What choosing a text cost, and the outcome of a search as vLLM's outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vllm.outputs import CompletionOutput, RequestOutput

from deployments.search.tokens import CUT_CHARACTER
from vocab.decoding.generator import Continuation
from vocab.decoding.select import TextScore

_DIGITS: Final = 4


@dataclass(frozen=True)
class AnswerCost:
    """The cost of one answer: the score of its first choice, and the tokens that the engine generated.

    The tokens include those of texts that were not chosen.
    """

    score: TextScore
    num_tokens: int

    def block(self, text: str, num_words: int) -> dict[str, Any]:
        """Return the members of the ``vocab`` block that report the cost, for the first choice as it is sent."""
        figures = {
            "log_mass_per_word": self.score.log_mass_per_word(num_words),
            "bits_per_char": self.score.bits_per_char(text),
        }
        rounded = {name: None if figure is None else round(figure, _DIGITS) for name, figure in figures.items()}
        return {**rounded, "generated_tokens": self.num_tokens}


class SearchOutputs:
    """Turns the results of a search into outputs of vLLM's engine, which its server formats alike.

    ``named_ends`` are the end tokens that vLLM names as the reason of an end: all but the tokenizer's own.
    """

    def __init__(self, request_id: str, prompt: Mapping[str, Any], named_ends: frozenset[int]) -> None:
        self._request_id = request_id
        self._prompt = prompt
        self._named_ends = named_ends

    def of(self, completions: list[CompletionOutput], *, finished: bool) -> RequestOutput:
        """Build vLLM's output of the request from its choices."""
        return RequestOutput(
            request_id=self._request_id,
            prompt=self._prompt.get("prompt"),
            prompt_token_ids=self._prompt["prompt_token_ids"],
            prompt_logprobs=None,
            outputs=completions,
            finished=finished,
        )

    def completion_of(self, text: Continuation, index: int = 0) -> CompletionOutput:
        """Build vLLM's choice from a text; it goes on where the text ends with a sentence."""
        # vLLM leaves half a character out.
        written = text.text.removesuffix(CUT_CHARACTER) if text.finish == "length" else text.text
        finish = None if text.finish == "sentence" else text.finish
        return self.completion(index, written, text.tokens, finish, text.stop_reason)

    def completion(
        self, index: int, text: str, tokens: Sequence[int], finish: str | None, stop_string: str | None
    ) -> CompletionOutput:
        """Build vLLM's choice, with the reason of its end as vLLM names it."""
        is_named = finish == "stop" and stop_string is None and tokens[-1] in self._named_ends
        return CompletionOutput(
            index=index,
            text=text,
            token_ids=list(tokens),
            cumulative_logprob=None,
            logprobs=None,
            finish_reason=finish,
            stop_reason=tokens[-1] if is_named else stop_string,
        )
