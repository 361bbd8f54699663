"""The tokens that an engine generated: their probabilities, their text, and their states in a word list.

Scores are read from vLLM's two containers of logprobs and the ranks that ``vocab.matching.log_mass`` packs; texts
come from vLLM's own detokenizer, as for clients; states from the artefact that the engine uses.

An engine names the likeliest tokens of each step. Where the list allows fewer, vLLM fills up with tokens that the mask
took, and where a mask failed any token may be among them: ``ListedLogprobs`` leaves those out of answers. The answer's
own tokens stay: their text is read anyway.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from vllm.exceptions import GenerationError
from vllm.logprobs import FlatLogprobs
from vllm.outputs import CompletionOutput
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from vocab.arrays.kernels import Int32Array
from vocab.decoding.generator import Place
from vocab.matching.log_mass import unpack
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.matching.repeats import MAX_SEEN
from vocab.matching.text_states import State, TextStates

CUT_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"

_NUM_CONTEXT_TOKENS: Final = 16
"""Of the prompt. vLLM's slower detokenizer looks back 5, and a character takes 4 at most; all of a long prompt would
cost 0.1 ms for each text."""

_MAX_CHARACTER_TOKENS: Final = 4


class EngineStepError(GenerationError):
    """The engine gave a step no answer, or an impossible one."""


class ListFaultError(Exception):
    """The engine gave a token that the word list does not allow: our own fault."""


class TokenScore(NamedTuple):
    """Of one token: log p, log of the mass that the mask left, and log p / q; natural logarithms."""

    log_p: float
    log_mass: float
    log_weight: float


def scores_of(output: CompletionOutput, *, is_masked: bool) -> list[TokenScore]:
    """Return the score of each token of an output.

    Args:
        output: Of a request with ``logprobs=0``, or with ``flat_logprobs``: vLLM's other container loses the rank of a
            token that is among the likeliest.
        is_masked: Whether the request was constrained; else a rank holds nothing of ours.

    Raises:
        EngineStepError: The output does not have them.
    """
    return [score_at(output, position, is_masked=is_masked) for position in range(len(output.token_ids))]


def score_at(output: CompletionOutput, position: int, *, is_masked: bool = True) -> TokenScore:
    """Return the score of one token of an output; as ``scores_of``."""
    logprobs, token = _logprobs(output), output.token_ids[position]
    one = logprobs[position][token]
    rank = logprobs.ranks[logprobs.start_indices[position]] if isinstance(logprobs, FlatLogprobs) else one.rank
    try:
        log_mass, log_weight = unpack(rank or 0) if is_masked else (0.0, 0.0)
    except ValueError as error:
        raise EngineStepError(str(error)) from None
    return TokenScore(_finite(one.logprob), log_mass, log_weight)


def likeliest(output: CompletionOutput, position: int = 0) -> list[tuple[int, float]]:
    """Return the likeliest tokens at a position of an output, in order, with log p of each.

    Raises:
        EngineStepError: The output does not have them.
    """
    # A mask may leave fewer tokens than were asked for; the others come with minus infinity.
    ranked = [(token, one.logprob) for token, one in _logprobs(output)[position].items() if one.logprob != -math.inf]
    ranked.sort(key=lambda entry: -entry[1])
    return [(token, _finite(log_p)) for token, log_p in ranked]


def _logprobs(output: CompletionOutput) -> Any:
    """Return an output's logprobs; raise where it has none for one of its tokens."""
    logprobs = output.logprobs
    if logprobs is None or len(logprobs) != len(output.token_ids):
        raise EngineStepError("the engine did not say how likely its tokens are")
    return logprobs


def _finite(log_p: float) -> float:
    if not math.isfinite(log_p):
        raise EngineStepError(f"the engine gave a token whose log p is {log_p}")
    return log_p


class TokenText:
    """Decode texts that follow one prompt; of ``params`` only whether special tokens are shown counts."""

    def __init__(self, tokenizer: Any, prompt_tokens: Sequence[int], params: SamplingParams) -> None:
        self._tokenizer = tokenizer
        self._prompt_tokens = list(prompt_tokens[-_NUM_CONTEXT_TOKENS:])
        self._shown = SamplingParams(
            skip_special_tokens=params.skip_special_tokens,
            spaces_between_special_tokens=params.spaces_between_special_tokens,
        )

    def new_detokenizer(self, params: SamplingParams | None = None) -> IncrementalDetokenizer:
        """Return vLLM's own detokenizer for a text after the prompt.

        With ``params`` it looks for their stop strings.
        """
        request = EngineCoreRequest(
            request_id="",
            prompt_token_ids=self._prompt_tokens,
            mm_features=None,
            sampling_params=params or self._shown,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        return IncrementalDetokenizer.from_new_request(self._tokenizer, request)

    def of(self, tokens: Sequence[int]) -> str:
        """Decode tokens to text, without an incomplete character at its end; 1 µs for each token."""
        if not tokens:
            return ""
        detokenizer = self.new_detokenizer()
        detokenizer.update(list(tokens), False)
        return str(detokenizer.get_next_output_text(finished=True, delta=False))

    def is_cut(self, tokens: Sequence[int]) -> bool:
        """Return whether tokens end inside a character."""
        return bool(self._tokenizer.decode(list(tokens[-_MAX_CHARACTER_TOKENS:])).endswith(CUT_CHARACTER))


@dataclass(frozen=True, slots=True)
class Constraint:
    """The word list of one request: its name for the engine, and the states that the engine follows."""

    reference: GrammarReference
    states: TextStates

    @property
    def start(self) -> State:
        """Return the state in which the request's text begins."""
        return self.states.begin(self.reference.place)

    def grammar(self, place: Place, budget: int) -> str:
        """Return the grammar of a text that continues from a place within ``budget`` tokens."""
        no_repeat = self.reference.no_repeat
        here = replace(
            self.reference,
            max_tokens=budget,
            start=place.state if place.tokens else None,
            min_tokens=max(self.reference.min_tokens - len(place.tokens), 0),
            seen=() if no_repeat is None else place.tokens[-MAX_SEEN:],
        )
        return here.to_ebnf()

    def after(self, state: State, tokens: tuple[int, ...], budget: int, end_tokens: frozenset[int]) -> State:
        """Return the automaton's state after tokens, with ``budget`` tokens left before them.

        Raises:
            ListFaultError: The list does not allow one of them.
        """
        for token in tokens:
            budget -= 1
            if token in end_tokens:
                if not self.states.can_stop(state):
                    raise ListFaultError("the engine ended a text that is not whole")
                continue
            state = self.states.target(state, token, budget)
            if not state:
                raise ListFaultError(f"the engine gave token {token}, which may not come there")
        return state


class ListedLogprobs:
    """Removes from an answer's logprobs the tokens that its word list forbids.

    It follows the answer's choices, token by token, with the masks that the engine fills.

    A text is followed within the request's budget, as in the engine: near its end the budget decides which of an
    author's wishes are dropped, so that a text followed without one may come where nothing is allowed.

    Args:
        constraint: The list; None where xgrammar makes the masks, so that only tokens without a probability are known
            to be forbidden.
        end_tokens: Those that end a text and have none themselves, as the engine's matcher has them.
        asked_for: Tokens whose logprobs the client asked for by number; they stay.
        is_delta: Whether each output has new tokens only.
    """

    def __init__(
        self, constraint: Constraint | None, end_tokens: Collection[int], asked_for: Collection[int], *, is_delta: bool
    ) -> None:
        self._constraint = constraint
        self._end_tokens = end_tokens
        self._asked_for = asked_for
        self._is_delta = is_delta
        self._followed: dict[int, _FollowedText] = {}

    def keep_listed(self, output: CompletionOutput) -> None:
        """Remove forbidden tokens from the logprobs of an output, in place."""
        if output.logprobs is None:
            return
        text = self._followed.get(output.index) if self._is_delta else None
        if text is None and self._constraint is not None:
            text = self._followed[output.index] = _FollowedText(self._constraint, self._end_tokens)
        listed: list[dict[int, Any]] = []
        for token, entries in zip(output.token_ids, output.logprobs, strict=False):
            mask = None if text is None else text.mask()
            listed.append(
                {
                    other: entry
                    for other, entry in (entries or {}).items()
                    if other == token or other in self._asked_for or _may_come(mask, other, entry.logprob)
                }
            )
            if text is not None:
                text.accept(token)
        output.logprobs = listed


class _FollowedText:
    """A text as the engine's matcher follows it; after a token that its mask forbids, nothing more is allowed."""

    def __init__(self, constraint: Constraint, end_tokens: Collection[int]) -> None:
        self._matcher = Matcher.of(constraint.reference, constraint.states, end_tokens)
        self._mask: Int32Array = np.zeros((constraint.states.words.num_tokens + 31) // 32, dtype=np.int32)
        self._is_allowed = True

    def mask(self) -> Int32Array:
        """Return the mask of the next token, int32 (words,), until the next call."""
        if self._is_allowed:
            self._matcher.fill_bitmask(self._mask)
        else:
            self._mask[:] = 0
        return self._mask

    def accept(self, token: int) -> None:
        """Follow the text by one token."""
        self._is_allowed = self._is_allowed and self._matcher.accept_token(token)


def _may_come(mask: Int32Array | None, token: int, logprob: float) -> bool:
    if logprob == -math.inf:
        return False
    return mask is None or (token < 32 * len(mask) and bool(mask[token >> 5] >> np.int32(token & 31) & 1))
