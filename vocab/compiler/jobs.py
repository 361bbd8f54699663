"""The jobs that a service sends its compile process and the replies, as JSON lines.

Only names, words and numbers are sent; artefacts are in a folder that both processes share.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from vocab import errors
from vocab.errors import CompileError, VocabularyError
from vocab.lists.wordlists import AskedSource, Source, Unit
from vocab.options import ListOptions


@dataclass(frozen=True, slots=True)
class CompileList:
    """Compile a list into an artefact: tokenize its words, and build their trie.

    Attributes:
        lang: The name of the list; with ``words``, the language whose rules of spelling apply, or None.
        words: In rank order, instead of a list of that name.
        unit: Whether each form has a rank of its own, or each lemma with all its forms.
        source: Which list the name means, and
        safe: Whether profanity is left out of it, as in ``load_word_list``.
        is_whole: Whether all of a long list is needed, or only its first ``FIRST_WORDS`` ranks.
    """

    lang: str | None
    words: tuple[str, ...] | None = None
    unit: Unit = "form"
    source: AskedSource = "auto"
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


Job: TypeAlias = CompileList | ChangeList | MeasureTexts

FIRST_WORDS: Final = 20_000
"""Ranks of the artefact that serves every N up to here: made in a tenth of the time of a whole language."""

_KINDS: Final[dict[str, type[Job]]] = {job.__name__: job for job in (CompileList, ChangeList, MeasureTexts)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """The artefact that a job stored, or found stored.

    Attributes:
        digest: Of the list, or of its changes; empty where there is nothing to change.
        num_ranks: The largest N that makes a difference, of the whole list.
        num_ranks_here: Of the artefact, which may hold the first of them only.
        num_dropped: Words that the tokenizer cannot spell.
        dropped_words: The first of them.
        was_stored: Whether it existed, so that nothing was compiled.
        seconds: How long the job took.
        source: Where the words of a list come from.
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


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a job.

    Attributes:
        compiled: None after an error, and for other jobs than lists and changes.
        fewest_tokens: Of the shortest text; None where there is no text.
        resident_bytes: The memory of the process afterwards.
    """

    compiled: Compiled | None = None
    fewest_tokens: int | None = None
    error: VocabularyError | None = None
    resident_bytes: int = 0

    def with_seconds(self, seconds: float) -> "Reply":
        """Return the reply with the time that the job took, where it has an artefact."""
        return self if self.compiled is None else replace(self, compiled=replace(self.compiled, seconds=seconds))


def write_job(job: Job | CheckStructure) -> bytes:
    """Serialize a job of the compile process as a JSON line."""
    return _line({"kind": type(job).__name__, **asdict(job)})


def read_job(line: bytes) -> Job:
    """Parse a job of the compile process from a JSON line."""
    values = json.loads(line)
    kind = _KINDS[values.pop("kind")]
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
        elif name == "options":
            values[name] = ListOptions(**value)
    return kind(**values)


def read_structure(line: bytes) -> CheckStructure:
    """Parse a ``CheckStructure`` job from a JSON line."""
    values = json.loads(line)
    return CheckStructure(values["text"], values["language"], values["num_tokens"])


def write_reply(reply: Reply) -> bytes:
    """Serialize a reply of the compile process as a JSON line."""
    error = reply.error
    return _line(
        {
            "compiled": None if reply.compiled is None else asdict(reply.compiled),
            "fewest_tokens": reply.fewest_tokens,
            "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
            "resident_bytes": reply.resident_bytes,
        }
    )


def read_reply(line: bytes) -> Reply:
    """Parse a reply from the JSON line of ``write_reply``; raise ``ValueError`` if it is something else."""
    try:
        values = json.loads(line)
        return Reply(
            compiled=_parse_artefact(values["compiled"]),
            fewest_tokens=values["fewest_tokens"],
            error=_error(values["error"]),
            resident_bytes=int(values["resident_bytes"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no reply: {error}") from None


def _parse_artefact(values: dict[str, Any] | None) -> Compiled | None:
    """Parse what the compile process replied of its artefact; None if it has none."""
    if values is None:
        return None
    return Compiled(dropped_words=tuple(values.pop("dropped_words")), **values)


def _error(values: dict[str, str] | None) -> VocabularyError | None:
    """Rebuild the error of a reply; one of an unknown type becomes a ``CompileError``."""
    if values is None:
        return None
    kind = getattr(errors, values["type"], CompileError)
    is_ours = isinstance(kind, type) and issubclass(kind, VocabularyError)
    return kind(values["message"]) if is_ours else CompileError(values["message"])


def _line(values: dict[str, Any]) -> bytes:
    # Lone surrogates, which a word may not have but a request may, survive as escapes.
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
