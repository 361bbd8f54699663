"""The jobs that a service sends its compile process and the replies, as JSON lines.

Only names, words and numbers are sent; artefacts are in a folder that both processes share.
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
    """Compile a list for every N.

    Attributes:
        lang: The name of the list; with ``words``, the language whose rules of spelling apply, or None.
        words: In rank order, instead of a list of that name.
        unit: Whether each form has a rank of its own, or each lemma with all its forms.
    """

    lang: str | None
    words: tuple[str, ...] | None = None
    unit: Unit = "form"
    options: ListOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True)
class ExcludeWords:
    """Leave words out of a compiled list without compiling it again, where possible."""

    digest: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompileWithout:
    """Compile the words of an artefact again without ``words``, by default with its options; others keep their rank."""

    digest: str
    words: tuple[str, ...]
    options: ListOptions | None = None


Job: TypeAlias = CompileList | ExcludeWords | CompileWithout

_KINDS: Final[dict[str, type[Job]]] = {job.__name__: job for job in (CompileList, ExcludeWords, CompileWithout)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A stored artefact.

    Attributes:
        num_ranks: The largest N that makes a difference.
        fewest_tokens: Pairs (tokens, rank): from that rank on, so few tokens make a text; fewer tokens need higher
            ranks.
        num_dropped: Words left out because the tokenizer cannot spell them.
        dropped_words: The first of them.
        was_stored: Whether it existed, so that nothing was compiled.
        seconds: How long the job took.
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
        """Return the fewest tokens of a text of the first ``n_words`` words; None where there is no text."""
        n_words = min(n_words, self.num_ranks)
        return min((tokens for tokens, rank in self.fewest_tokens if rank <= n_words), default=None)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a job; ``compiled`` is None after an error, or where leaving words out needs a compile.

    ``resident_bytes`` is the memory of the process afterwards.
    """

    compiled: Compiled | None = None
    error: VocabularyError | None = None
    resident_bytes: int = 0

    def with_seconds(self, seconds: float) -> "Reply":
        return self if self.compiled is None else replace(self, compiled=replace(self.compiled, seconds=seconds))


def write_job(job: Job) -> bytes:
    return _line({"kind": type(job).__name__, **asdict(job)})


def read_job(line: bytes) -> Job:
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
    """Read a line that ``write_reply`` wrote; raise ``ValueError`` if it is something else."""
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
