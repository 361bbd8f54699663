"""The jobs that a service sends its compile process, and the replies.

Only names, words and numbers are sent; artefacts are in a folder that both processes share.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from vocab.errors import VocabularyError
from vocab.lists.wordlists import Source, Unit
from vocab.options import ListOptions


@dataclass(frozen=True, slots=True)
class CompileList:
    """Compile a list into an artefact: tokenize its words, and build their trie.

    Attributes:
        lang: The name of the list; with ``words``, the language whose rules of spelling apply, or None.
        words: In rank order, instead of a list of that name.
        unit: Whether each form has a rank of its own, or each lemma with all its forms.
        safe: Whether profanity is left out of it, as in ``load_word_list``.
        is_whole: Whether all of a long list is needed, or only its first ranks: ``FIRST_WORDS``, or fewer of
            many forms each.
    """

    lang: str | None
    words: tuple[str, ...] | None = None
    unit: Unit = "form"
    safe: bool = True
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class ChangeList:
    """Add words to a compiled list, and leave others out."""

    digest: str
    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasureTexts:
    """Measure the shortest text of a compiled list, with these changes (an artefact), options and N."""

    digest: str
    changes: str | None
    options: ListOptions
    n_words: int


@dataclass(frozen=True, slots=True)
class CompileGrammar:
    """Compile the texts of a compiled list to xgrammar's grammar."""

    texts: MeasureTexts


StructureLanguage: TypeAlias = Literal["json_schema", "listed", "regex", "ebnf", "lark"]
"""What a client writes a structure in; ``listed`` is a prepared schema for answers in listed words. All but Lark are
xgrammar's."""


@dataclass(frozen=True, slots=True)
class CheckStructure:
    """Check whether the engine can follow a JSON schema, a regular expression or a grammar; an error says why not.

    Done by a process of its own, ``vocab.compiler.structure_worker``, for answers of up to ``num_tokens``.
    """

    text: str
    language: StructureLanguage = "json_schema"
    num_tokens: int = 64


Job: TypeAlias = CompileList | ChangeList | CompileGrammar | MeasureTexts

FIRST_WORDS: Final = 20_000
"""Ranks of the artefact that serves every N up to here: made in a tenth of the time of a whole language. Where words
share ranks, it may have fewer (``vocab.compiler.worker``)."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The artefact that a job stored, or found stored.

    Attributes:
        digest: Of the list, its changes or a grammar of it; empty where there is nothing to change.
        num_ranks: The largest N that makes a difference, of the whole list.
        num_ranks_here: Of the artefact, which may hold the first of them only.
        num_dropped: Words that the tokenizer cannot spell.
        dropped_words: The first of them.
        was_stored: Whether it existed, so that nothing was compiled.
        seconds: How long the job took.
        source: Where the words of a list come from.
        has_own_spelling: Whether they are spelled as the model's tokenizer spells them, which is not always known.
    """

    digest: str
    num_ranks: int
    num_ranks_here: int = 0
    num_words: int = 0
    num_dropped: int = 0
    dropped_words: tuple[str, ...] = ()
    was_stored: bool = False
    seconds: float = 0.0
    source: Source = "inline"
    has_own_spelling: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a job.

    Attributes:
        compiled: None after an error, and for ``MeasureTexts``.
        fewest_tokens: Of the shortest text; None where there is no text.
        resident_bytes: The memory of the process afterwards.
    """

    compiled: Compiled | None = None
    fewest_tokens: int | None = None
    error: VocabularyError | None = None
    resident_bytes: int = 0
