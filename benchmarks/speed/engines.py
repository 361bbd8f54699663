"""The engines whose masks are compared, each called as vLLM's backend calls it, and what they are given.

An engine imports its library when it is made, so that one that is not installed costs nothing.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from benchmarks.speed.regexes import regex_of
from vocab.arrays.kernels import Int32Array
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.automaton.trie_builder import build_words
from vocab.compiler.warm_up import warm_up
from vocab.lists.wordlists import WordList
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.grammar import write_ebnf


@dataclass(frozen=True)
class ModelTokenizer:
    """A tokenizer as the engines need it: the loaded one, how it spells words, and the token that ends a text."""

    path: str
    hugging_face: Any
    speller: Speller
    stop_token: int

    @property
    def facts(self) -> TokenizerFacts:
        """The bytes of its tokens."""
        return self.speller.facts

    @property
    def num_row_words(self) -> int:
        return (len(self.facts) + 31) // 32


def load_model_tokenizer(path: str) -> ModelTokenizer:
    """Read a tokenizer from a folder or a Hugging Face id."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    return ModelTokenizer(path, tokenizer, Speller.from_tokenizer(tokenizer), tokenizer.eos_token_id)


@dataclass(frozen=True)
class Definition:
    """The texts that an engine is to allow: as a list, or as a grammar."""

    word_list: WordList
    options: ListOptions
    n_words: int

    @cached_property
    def ebnf(self) -> str:
        return write_ebnf(self.word_list, self.options, self.n_words)

    @cached_property
    def regex(self) -> str:
        return regex_of(self.ebnf)


class Follower(NamedTuple):
    """One text in the making.

    Attributes:
        fill: Writes the tokens that may come next into the engine's row.
        accept: Goes on by one token; False where it may not come.
    """

    fill: Callable[[], object]
    accept: Callable[[int], bool]


class Engine(Protocol):
    """One engine, with its tokenizer read."""

    row: Int32Array
    """int32 (words,), where ``Follower.fill`` writes: token t at bit t % 32 of word t // 32."""

    def compile(self, definition: Definition) -> float:
        """Get ready for the texts of a definition; return the seconds of it, the grammar written before."""

    def follow(self) -> Follower:
        """Begin a new text."""


class Wordbound:
    """This repository's automaton: the whole list compiled, once for every N, saved, and mapped from its file."""

    def __init__(self, tokenizer: ModelTokenizer) -> None:
        self._tokenizer = tokenizer
        self._folder = tempfile.TemporaryDirectory()
        self.row = np.zeros(tokenizer.num_row_words, dtype=np.int32)
        self._frame_tokens = FrameTokens.of(tokenizer.facts)
        # The kernels are compiled, or read from numba's cache, on first use.
        warm_up()

    def compile(self, definition: Definition) -> float:
        started = time.perf_counter()
        words = build_words(definition.word_list, self._tokenizer.speller)
        seconds = time.perf_counter() - started
        folder = ArtefactFolder(Path(self._folder.name))
        folder.save(words)
        started = time.perf_counter()
        loaded = folder.load(words.digest)
        frame = frame_for(loaded, None, definition.options, self._frame_tokens)
        self._states = ListStates(loaded, frame, definition.n_words)
        return seconds + time.perf_counter() - started

    def follow(self) -> Follower:
        matcher = Matcher(self._states, (self._tokenizer.stop_token,))
        return Follower(partial(matcher.fill_bitmask, self.row), matcher.accept_token)


class Llguidance:
    """llguidance with one regular expression; its matcher goes back to its start, so that its automaton stays warm.

    The expression is its best form for these texts: as Lark with a lexeme per word, 3,000 words take half as long
    again, 50,000 words meet its limits, and its lexer, which never goes back, refuses " —" before a word. Where only
    one text can follow, it allows that text's usual tokens alone, so some of its masks have fewer bits.
    """

    _FUEL: Final = 1_000_000_000
    """Its own limits, a million for a grammar, refuse some thousand words."""

    def __init__(self, tokenizer: ModelTokenizer) -> None:
        import llguidance.hf
        import llguidance.numpy

        self._library: Any = llguidance
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer.hugging_face, n_vocab=len(tokenizer.facts))
        self._bitmask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self.row = self._bitmask[0]

    def compile(self, definition: Definition) -> float:
        regex, limits = (
            definition.regex,
            ("initial_lexer_fuel", "step_lexer_fuel", "max_lexer_states", "max_grammar_size"),
        )
        raised = self._library.LLParserLimits(**dict.fromkeys(limits, self._FUEL))
        started = time.perf_counter()
        grammar = self._library.LLMatcher.grammar_from_regex(regex)
        self._matcher = self._library.LLMatcher(self._tokenizer, grammar, limits=raised, log_level=0)
        seconds = time.perf_counter() - started
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error()[:500])
        return seconds

    def follow(self) -> Follower:
        self._matcher.reset()
        fill = partial(self._library.numpy.fill_next_token_bitmask, self._matcher, self._bitmask, 0)
        return Follower(fill, self._matcher.consume_token)


class Xgrammar:
    """xgrammar with the EBNF of the list, or with a regular expression; one thread."""

    def __init__(self, tokenizer: ModelTokenizer, form: str = "ebnf") -> None:
        import xgrammar

        self._library: Any = xgrammar
        self._form = form
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.hugging_face, vocab_size=len(tokenizer.facts))
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._compile = compiler.compile_regex if form == "regex" else compiler.compile_grammar
        self._bitmask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.row = self._bitmask[0].numpy()

    def compile(self, definition: Definition) -> float:
        grammar = getattr(definition, self._form)
        started = time.perf_counter()
        self._compiled = self._compile(grammar)
        return time.perf_counter() - started

    def follow(self) -> Follower:
        matcher = self._library.GrammarMatcher(self._compiled)
        return Follower(partial(matcher.fill_next_token_bitmask, self._bitmask), matcher.accept_token)


ENGINES: Final[dict[str, Callable[[ModelTokenizer], Engine]]] = {
    "wordbound": Wordbound,
    "llguidance": Llguidance,
    "xgrammar-ebnf": Xgrammar,
    "xgrammar-regex": partial(Xgrammar, form="regex"),
}
