"""What choosing a text cost, and the outcome of a search as vLLM's outputs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vllm.outputs import CompletionOutput

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


def completion_of(text: Continuation, named_ends: Collection[int], index: int = 0) -> CompletionOutput:
    """Build vLLM's choice from a text; it goes on where the text ends with a sentence."""
    # vLLM leaves half a character out.
    written = text.text.removesuffix(CUT_CHARACTER) if text.finish == "length" else text.text
    finish = None if text.finish == "sentence" else text.finish
    return completion(index, written, text.tokens, finish, text.stop_reason, named_ends)


def completion(
    index: int,
    text: str,
    tokens: Sequence[int],
    finish: str | None,
    stop_string: str | None,
    named_ends: Collection[int],
) -> CompletionOutput:
    """Build vLLM's choice; ``named_ends`` are the end tokens that vLLM names as the reason of an end."""
    is_named = finish == "stop" and stop_string is None and tokens[-1] in named_ends
    return CompletionOutput(
        index=index,
        text=text,
        token_ids=list(tokens),
        cumulative_logprob=None,
        logprobs=None,
        finish_reason=finish,
        stop_reason=tokens[-1] if is_named else stop_string,
    )
