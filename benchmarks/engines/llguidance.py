"""llguidance, called as vLLM's backend calls it, with one regular expression.

The expression is its best form for these texts: as Lark with a lexeme per word, 3,000 words take half as long again,
50,000 words meet its limits, and its lexer, which never goes back, refuses " —" before a word.
"""

import time
from functools import partial
from typing import Final

import llguidance
import llguidance.hf
import llguidance.numpy

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer

_FUEL: Final = 1_000_000_000
"""Its own limits, a million for a grammar, refuse some thousand words."""


class Llguidance:
    """A matcher, taken back to its start for each text, so that its lazily built automaton stays warm."""

    reads: Form = "regex"

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        del name
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer.hugging_face, n_vocab=len(tokenizer.facts))
        self._bitmask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self.row = self._bitmask[0]
        self.note = (
            "grammar_from_regex, limits raised; LLMatcher, its default slices; numpy.fill_next_token_bitmask; where "
            "only one text can follow, it allows that text's usual tokens alone, so some masks have fewer bits"
        )

    def compile(self, definition: Definition) -> Compiled:
        regex = definition.regex
        limits = llguidance.LLParserLimits(
            initial_lexer_fuel=_FUEL, step_lexer_fuel=_FUEL, max_lexer_states=_FUEL, max_grammar_size=_FUEL
        )
        started = time.perf_counter()
        grammar = llguidance.LLMatcher.grammar_from_regex(regex)
        self._matcher = llguidance.LLMatcher(self._tokenizer, grammar, limits=limits, log_level=0)
        seconds = time.perf_counter() - started
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error()[:500])
        return Compiled(seconds)

    def follow(self) -> Follower:
        self._matcher.reset()
        fill = partial(llguidance.numpy.fill_next_token_bitmask, self._matcher, self._bitmask, 0)
        return Follower(fill, self._matcher.consume_token)


engine = Llguidance
