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

    ``eos_token`` is the tokenizer's own end token; unlike others, vLLM does not name it as the reason of an end.
    """

    def __init__(
        self, request_id: str, prompt: Mapping[str, Any], eos_token: int | None, end_tokens: frozenset[int]
    ) -> None:
        self._request_id = request_id
        self._prompt = prompt
        self.named_ends = end_tokens - {eos_token}

    def whole(self, texts: Sequence[Continuation]) -> RequestOutput:
        """Return whole texts as the choices of one finished output."""
        return self.of([self._completion(index, text) for index, text in enumerate(texts)], finished=True)

    def part(self, part: Continuation) -> RequestOutput:
        """Return part of the only choice as an output, finished unless it ends with a sentence."""
        return self.of([self._completion(0, part)], finished=part.finish != "sentence")

    def join_parts(self, parts: Sequence[Continuation]) -> RequestOutput:
        """Return all parts of the only choice as one finished output."""
        last = self._completion(0, parts[-1])
        last.text = "".join(part.text for part in parts)
        last.token_ids = [token for part in parts for token in part.tokens]
        return self.of([last], finished=True)

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

    def _completion(self, index: int, text: Continuation) -> CompletionOutput:
        """Build vLLM's choice from a text, with the reason of its end as vLLM names it."""
        stop_reason: int | str | None = text.stop_reason
        if text.finish == "stop" and stop_reason is None and text.tokens[-1] in self.named_ends:
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
