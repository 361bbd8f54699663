"""The engines that are compared: one module each, all seen through the same few methods.

An engine's module imports its library when it is loaded, so an engine that is not installed costs nothing and is
reported as missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, Protocol

from benchmarks.regexes import regex_of
from vocab.arrays.kernels import Int32Array
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.grammar import write_ebnf

ENGINES: Final = {
    "wordbound": "benchmarks.engines.wordbound",
    "wordbound-n": "benchmarks.engines.wordbound",
    "llguidance": "benchmarks.engines.llguidance",
    "xgrammar-ebnf": "benchmarks.engines.xgrammar",
    "xgrammar-regex": "benchmarks.engines.xgrammar",
    "outlines-core": "benchmarks.engines.outlines_core",
    "lm-format-enforcer": "benchmarks.engines.lm_format_enforcer",
}
"""Name of each engine and the module that makes it, by ``engine(name, model_tokenizer)``."""


Form = Literal["list", "ebnf", "regex"]


@dataclass(frozen=True)
class ModelTokenizer:
    """A tokenizer as the engines need it.

    Attributes:
        path: Where it came from.
        hugging_face: The loaded tokenizer.
        speller: How it spells words.
        stop_token: The token that ends a text.
    """

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


@dataclass(frozen=True)
class Definition:
    """The texts that an engine is to allow, in every form that one reads."""

    word_list: WordList
    options: ListOptions
    n_words: int

    def grammar(self, form: Form) -> str:
        """The texts as a grammar; empty for an engine that reads the list."""
        if form == "list":
            return ""
        return self.ebnf if form == "ebnf" else self.regex

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


@dataclass(frozen=True)
class Compiled:
    """What a compile took and gave.

    Attributes:
        seconds: The compile alone: the grammar is written and the tokenizer read before.
        artefact_bytes: Size of what it made of the grammar, where it says so.
    """

    seconds: float
    artefact_bytes: int | None = None


class Engine(Protocol):
    """One engine, with its tokenizer read."""

    note: str
    """What it is given and how it is called."""

    reads: Form
    """In which form it reads a definition."""

    row: Int32Array
    """int32 (words,), where ``Follower.fill`` writes: token t at bit t % 32 of word t // 32."""

    def compile(self, definition: Definition) -> Compiled:
        """Gets ready for the texts of a definition."""

    def follow(self) -> Follower:
        """Begins a new text."""


def make_engine(name: str, tokenizer: ModelTokenizer) -> Engine:
    """Loads an engine.

    Raises:
        ImportError: Its library is not installed.
    """
    engine: Engine = import_module(ENGINES[name]).engine(name, tokenizer)
    return engine
