"""What a service asks of its compile process and what it gets back, as JSON lines.

Only names, words and numbers travel; artefacts lie in the folder that both processes know. Nothing here compiles.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeAlias

from vocab import errors
from vocab.errors import CompileError, VocabularyError
from vocab.lists.wordlists import Unit
from vocab.options import DEFAULT_OPTIONS, ListOptions


@dataclass(frozen=True, slots=True)
class CompileList:
    """Compile a list for every N: one of that name, or the ``words`` themselves.

    Attributes:
        lang: The list; beside ``words`` the language whose rules of spelling hold, or None.
        words: In rank order, instead of a list of that name.
        unit: Whether each form has a rank of its own, or each lemma with all its forms.
        options: The options compiled in.
    """

    lang: str | None
    words: tuple[str, ...] | None = None
    unit: Unit = "form"
    options: ListOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True)
class ExcludeWords:
    """Leave words out of a compiled list without compiling it again, where that can be done."""

    digest: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompileWithout:
    """Compile the words of an artefact again, without some of them; all others keep their rank.

    Attributes:
        digest: The artefact.
        words: What is left out, if anything.
        options: Others than the artefact's; None for the same.
    """

    digest: str
    words: tuple[str, ...]
    options: ListOptions | None = None


Job: TypeAlias = CompileList | ExcludeWords | CompileWithout

_KINDS: Final[dict[str, type[Job]]] = {job.__name__: job for job in (CompileList, ExcludeWords, CompileWithout)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """An artefact that exists.

    Attributes:
        digest: Names it.
        num_ranks: The largest N that makes a difference.
        fewest_tokens: (tokens, rank) of the state in which a text starts: from that rank on, so few tokens make a
            text; fewer tokens need higher ranks.
        num_words: The words in it.
        num_dropped: Words that the tokenizer cannot spell, left out.
        dropped_words: The first of them.
        was_stored: Whether it was there already, and nothing was compiled.
        seconds: What it took.
    """

    digest: str
    num_ranks: int
    fewest_tokens: tuple[tuple[int, int], ...]
    num_words: int = 0
    num_dropped: int = 0
    dropped_words: tuple[str, ...] = ()
    was_stored: bool = False
    seconds: float = 0.0

    def fewest_for(self, n_words: int) -> int | None:
        """How few tokens make a text of the first ``n_words`` words; None where there is no text."""
        n_words = min(n_words, self.num_ranks)
        return min((tokens for tokens, rank in self.fewest_tokens if rank <= n_words), default=None)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the process answers to a job.

    Attributes:
        compiled: The artefact; None where the words cannot be left out without a compile.
        error: Why there is none: one of the library's errors.
        resident_bytes: The memory of the process afterwards.
    """

    compiled: Compiled | None = None
    error: VocabularyError | None = None
    resident_bytes: int = 0

    def with_seconds(self, seconds: float) -> "Reply":
        return self if self.compiled is None else replace(self, compiled=replace(self.compiled, seconds=seconds))


def write_job(job: Job) -> bytes:
    return _line({"kind": type(job).__name__, **asdict(job)})


def read_job(line: bytes) -> Job:
    """The job of a line that ``write_job`` wrote."""
    values = json.loads(line)
    kind = _KINDS[values.pop("kind")]
    if values["words"] is not None:
        values["words"] = tuple(values["words"])
    if values.get("options") is not None:
        values["options"] = ListOptions(**values["options"])
    return kind(**values)


def write_reply(reply: Reply) -> bytes:
    error = reply.error
    return _line(
        {
            "compiled": None if reply.compiled is None else asdict(reply.compiled),
            "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
            "resident_bytes": reply.resident_bytes,
        }
    )


def read_reply(line: bytes) -> Reply:
    """The reply of a line that ``write_reply`` wrote.

    Raises:
        ValueError: The line is something else.
    """
    try:
        values = json.loads(line)
        return Reply(
            compiled=_compiled(values["compiled"]),
            error=_error(values["error"]),
            resident_bytes=int(values["resident_bytes"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no reply: {error}") from None


def _compiled(values: dict[str, Any] | None) -> Compiled | None:
    if values is None:
        return None
    pairs = tuple((int(tokens), int(rank)) for tokens, rank in values.pop("fewest_tokens"))
    return Compiled(fewest_tokens=pairs, dropped_words=tuple(values.pop("dropped_words")), **values)


def _error(values: dict[str, str] | None) -> VocabularyError | None:
    if values is None:
        return None
    kind = getattr(errors, values["type"], CompileError)
    is_ours = isinstance(kind, type) and issubclass(kind, VocabularyError)
    return kind(values["message"]) if is_ours else CompileError(values["message"])


def _line(values: dict[str, Any]) -> bytes:
    # Lone surrogates, which a word may not have but a request may, survive as escapes.
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
