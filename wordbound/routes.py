"""The requests that the clients of a service send, and how the answers are read.

A method of ``Routes`` builds a ``Call``; ``wordbound.client`` sends it and waits, or awaits.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NotRequired,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    overload,
)
from urllib.parse import quote

import httpx2

from vocab import answers
from vocab.options import Case, End, Layout, Punctuation, Segmentation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vocab.lists.wordlists import Unit

Dtype: TypeAlias = Literal["float32", "float16"]
FileFormat: TypeAlias = Literal["txt", "docx", "gift", "qti", "tsv"]

_CONTENT: Final[Callable[[httpx2.Response], bytes]] = attrgetter("content")

P = ParamSpec("P")
T = TypeVar("T")


class Vocab(TypedDict, total=False):
    """A word list in a request: it has ``lang``, ``words`` or a ``level``."""

    lang: str
    n_words: int
    level: str
    unit: "Unit"
    safe: bool
    words: Sequence[str]
    extra_words: Sequence[str]
    exclude_words: Sequence[str]
    case: Case
    numbers: bool
    punctuation: Punctuation
    layout: Layout
    end: End
    segmentation: Segmentation
    possessive: bool
    adapter: str | None
    prompt_words: bool | str


class GlossaryEntry(TypedDict):
    word: str
    note: NotRequired[str]


class Exercise(TypedDict):
    """An exercise of one ``kind``, which says what its ``items`` have; of matching and order ``shown`` too."""

    kind: answers.ExerciseKind
    instruction: str | None
    items: list[dict[str, Any]]
    shown: NotRequired[list[int]]


class Exercises(TypedDict):
    object: Literal["vocabulary.exercises"]
    model: str
    lang: str | None
    exercises: list[Exercise]
    names: list[str]
    num_sentences: int
    num_unlisted_sentences: int
    left_out: list[answers.FewerItems]
    vocab: dict[str, Any]
    usage: answers.Usage


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read.

    Attributes:
        read: Parses the answer; raises ValueError or KeyError where it is not the service's.
        options: The request's, as ``httpx2.Client.build_request`` takes them.
        is_safe: Whether it only reads, so that it may be sent again when its connection breaks.
    """

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    options: Mapping[str, Any]
    is_safe: bool = True


class _Waits(Protocol):
    def send(self, call: Call[T], /) -> T: ...


class _Awaits(Protocol):
    def send(self, call: Call[T], /) -> Awaitable[T]: ...


class _route(Generic[P, T]):  # noqa: N801 - a decorator
    """A method that builds a ``Call``; called on a client, it sends it."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: _Waits, owner: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: _Awaits, owner: Any = None) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: Any = None) -> Callable[Concatenate[Any, P], Call[T]]: ...
    def __get__(self, client: _Waits | _Awaits | None, owner: Any = None) -> Any:
        if client is None:
            return self._build
        build = self._build.__get__(client)

        @functools.wraps(build)
        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(build(*args, **kwargs))

        return send


def read_json(answer: httpx2.Response) -> Any:
    """Return the members of an answer in JSON; ValueError where it is no object."""
    found = answer.json()
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _rows(answer: httpx2.Response) -> "NDArray[np.float32]":
    """Decode rows of log-probabilities, which travel as little-endian bytes."""
    import numpy as np

    dtype = np.dtype(answer.headers["x-wordbound-dtype"]).newbyteorder("<")
    num_rows, num_tokens = map(int, answer.headers["x-wordbound-shape"].split(","))
    return np.frombuffer(answer.content, dtype).reshape(num_rows, num_tokens).astype(np.float32)


def _get(path: str, /, **params: Any) -> Call[Any]:
    return Call("GET", path, read_json, {"params": drop_none(params)})


def _post(path: str, read: Callable[[httpx2.Response], T] = read_json, /, **body: Any) -> Call[T]:
    return Call("POST", path, read, {"json": drop_none(body)})


def drop_none(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request that are not None."""
    return {name: value for name, value in members.items() if value is not None}


class Routes:
    """The methods of both clients: each returns what its ``Call`` reads; those of ``AsyncClient`` are awaited.

    Arguments and answers have the names of the service's fields. Every method raises ``RefusedError`` where the service
    refuses what it was asked, ``AwayError`` where it cannot be reached or has no capacity, and ``ServiceError`` for any
    other failure.
    """

    @_route
    def get(self, path: str, /, **params: Any) -> Call[dict[str, Any]]:
        """Send a GET request to any route that answers in JSON."""
        return _get(path, **params)

    @_route
    def post(self, path: str, body: Mapping[str, Any], *, is_safe: bool = False) -> Call[dict[str, Any]]:
        """Send a body in JSON to any route that answers in JSON, again when the connection breaks if it ``is_safe``."""
        return Call("POST", path, read_json, {"json": body}, is_safe)

    @_route
    def vocabularies(self) -> Call[answers.VocabularyList]:
        """List the word lists and levels that ``vocab`` may name."""
        return _get("/v1/vocabularies")

    @_route
    def words(
        self, list_id: str, *, q: str | None = None, offset: int | None = None, limit: int | None = None
    ) -> Call[answers.VocabularyWords]:
        """List the words of a list in rank order; with ``q`` those that have it in them."""
        return _get(f"/v1/vocabularies/{quote(list_id, safe='')}/words", q=q, offset=offset, limit=limit)

    @_route
    def read_words(
        self, file: bytes, name: str | None = None, *, lang: str | None = None
    ) -> Call[answers.ReadVocabulary]:
        """Read the words of a file: plain lines, CSV, TSV, XLSX or an export of Anki."""
        options = {"content": file, "params": drop_none({"name": name, "lang": lang})}
        return Call("POST", "/v1/vocabularies/read", read_json, options)

    @_route
    def check(
        self,
        text: str,
        vocab: Vocab,
        *,
        new_words: Sequence[str] | None = None,
        words: bool | None = None,
        readings: bool | None = None,
        schema: Mapping[str, Any] | None = None,
        names: Literal["keep"] | None = None,
        inflected: bool | None = None,
        sentences: bool | None = None,
    ) -> Call[answers.CheckReport]:
        """Check which words of a text are in a list."""
        given = {"new_words": new_words, "words": words, "readings": readings, "schema": schema}
        given |= {"names": names, "inflected": inflected, "sentences": sentences}
        return _post("/v1/vocabularies/check", text=text, vocab=vocab, **given)

    @_route
    def next_words(
        self, text: str, vocab: Vocab, *, top: int | None = None, model: str | None = None
    ) -> Call[answers.NextWords]:
        """Find the ``top`` words of a list that are likeliest to follow a text."""
        return _post("/v1/vocabularies/next", text=text, vocab=vocab, top=top, model=model)

    @_route
    def swap(
        self, text: str, start: int, end: int, vocab: Vocab, *, top: int | None = None, model: str | None = None
    ) -> Call[answers.OtherWords]:
        """Find words of a list for the place of the word from ``start`` to ``end``, in code points."""
        place = {"start": start, "end": end}
        return _post("/v1/vocabularies/swap", text=text, **place, vocab=vocab, top=top, model=model)

    @_route
    def rewrite(
        self,
        text: str,
        vocab: Vocab,
        *,
        keep_names: bool | None = None,
        force: bool | None = None,
        candidates: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        model: str | None = None,
    ) -> Call[answers.RewrittenText]:
        """Rewrite a text in the words of a list."""
        sampling = {"candidates": candidates, "temperature": temperature, "top_p": top_p, "seed": seed}
        given = {"text": text, "vocab": vocab, "keep_names": keep_names, "force": force, "model": model}
        return _post("/v1/vocabularies/rewrite", **given, **sampling)

    @_route
    def exercises(
        self,
        text: str,
        vocab: Vocab,
        *,
        kinds: Sequence[answers.ExerciseKind] | None = None,
        num_items: int | None = None,
        keep_names: bool | None = None,
        seed: int | None = None,
        model: str | None = None,
    ) -> Call[Exercises]:
        """Make exercises from a text in the words of a list."""
        given = {"kinds": kinds, "num_items": num_items, "keep_names": keep_names, "seed": seed, "model": model}
        return _post("/v1/vocabularies/exercises", text=text, vocab=vocab, **given)

    @_route
    def worksheet(
        self,
        exercises: Sequence[Exercise],
        format: FileFormat,  # noqa: A002 - the field's name
        *,
        title: str | None = None,
        text: str | None = None,
        lang: str | None = None,
        font_size: int | None = None,
        key_title: str | None = None,
    ) -> Call[bytes]:
        """Make a file of the ``exercises`` of an answer: to print, for a learning platform, or for Anki."""
        given = {"title": title, "text": text, "lang": lang, "font_size": font_size, "key_title": key_title}
        return _post("/v1/documents/worksheet", _CONTENT, format=format, exercises=exercises, **given)

    @_route
    def document(
        self,
        text: str,
        *,
        title: str | None = None,
        glossary: Sequence[GlossaryEntry] | None = None,
        glossary_title: str | None = None,
        lang: str | None = None,
        font_size: int | None = None,
        new_words: Sequence[str] | None = None,
    ) -> Call[bytes]:
        """Make a DOCX of a text."""
        about = {"title": title, "lang": lang, "font_size": font_size, "new_words": new_words}
        return _post("/v1/documents", _CONTENT, text=text, glossary=glossary, glossary_title=glossary_title, **about)

    @_route
    def document_text(self, file: bytes, name: str | None = None) -> Call[str]:
        """Read the text of a DOCX, ODT, EPUB, PDF, HTML, subtitle, Markdown or plain text file."""
        options = {"content": file, "params": drop_none({"name": name})}
        return Call("POST", "/v1/documents/text", lambda answer: str(read_json(answer)["text"]), options)

    @_route
    def logprobs(
        self,
        prompt: str | Sequence[Any],
        *,
        dtype: Dtype | None = None,
        add_special_tokens: bool | None = None,
        model: str | None = None,
    ) -> "Call[NDArray[np.float32]]":
        """Return the log-probability of every token after each prompt: float32 (prompts, tokens).

        Args:
            prompt: A text or its token ids, or several of either.
            dtype: In which they travel; "float16" takes half of the bytes.
        """
        given = {"dtype": dtype, "add_special_tokens": add_special_tokens, "model": model}
        return _post("/v1/logprobs", _rows, prompt=prompt, **given)

    @_route
    def top_logprobs(
        self,
        prompt: str | Sequence[Any],
        top_logprobs: int,
        *,
        add_special_tokens: bool | None = None,
        model: str | None = None,
    ) -> Call[answers.LogprobsList]:
        """Return the likeliest tokens after each prompt; ``prompt`` is as in ``logprobs``."""
        given = {"add_special_tokens": add_special_tokens, "model": model}
        return _post("/v1/logprobs", prompt=prompt, top_logprobs=top_logprobs, **given)

    @_route
    def token_logprobs(
        self,
        prompt: str | Sequence[int],
        token_ids: Sequence[int],
        *,
        add_special_tokens: bool | None = None,
        model: str | None = None,
    ) -> Call[answers.TokenLogprobs]:
        """Return the log-probability of each of ``token_ids``, after the prompt and those before it."""
        given = {"add_special_tokens": add_special_tokens, "model": model}
        return _post("/v1/token_logprobs", prompt=prompt, token_ids=token_ids, **given)

    @_route
    def tokens(self) -> Call[answers.TokenTable]:
        """Return the model's tokens: the bytes of each in base64, by id."""
        return _get("/v1/tokens")
