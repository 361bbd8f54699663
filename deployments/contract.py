"""What travels between the deployments: the checked body of a chat request, and beside it the vocabulary, by digest."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deployments.errors import ApiError
from vocab.decoding.select import Select
from vocab.lists.levels import resolve_level
from vocab.lists.wordlists import Source, Unit, list_name
from vocab.options import Case, End, Layout, ListOptions, Punctuation, Segmentation
from vocab.text.changes import ListChanges, PromptWord, words_and_forms

ChatBody: TypeAlias = dict[str, Any]
"""A validated OpenAI chat request, or a completion, which has a ``prompt`` in place of the ``messages``: JSON types
only, no ``vocab`` field, always with ``model`` and an explicit ``max_tokens`` (never ``max_completion_tokens``). Only
lines of batches have a ``priority``; a client's is removed, and so is its ``cache_salt``."""


def num_prompts(body: ChatBody) -> int:
    """Return the number of prompts in a body: 1 of a chat, 1 or more of a completion."""
    return len(prompts_of(body)) if "prompt" in body else 1


def usage(num_prompt_tokens: int, num_drawn: int) -> dict[str, int]:
    """Return the ``usage`` member of an answer."""
    total = num_prompt_tokens + num_drawn
    return {"prompt_tokens": num_prompt_tokens, "completion_tokens": num_drawn, "total_tokens": total}


def prompts_of(body: ChatBody) -> list[Any]:
    """Return the prompts of a completion body as a list: each a text, or a list of token ids."""
    prompt = body["prompt"]
    return list(prompt) if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]


Part: TypeAlias = str | dict[str, Any]
"""A part of an answer: a server-sent event (``"data: …\\n\\n"``) of a stream, or the one dict of a whole answer."""

Answer: TypeAlias = Part | ApiError
"""One item of an answer: a part of it. An error is the first item, or the last one of what broke off."""

RowsItem: TypeAlias = Answer | NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]
"""One item of an answer with next-token rows: a dict that describes them, then arrays, which Ray passes through its
object store without making Python objects of their numbers. An error is as in ``Answer``."""

Tool: TypeAlias = Literal["next", "swap", "rewrite", "exercises"]
"""What a replica does with a text and a word list besides writing answers."""

ENGINE_START_S: Final = 10
"""When to come back where no engine runs; a small model is loaded by then."""

ENGINE_DEAD: Final = "engine_dead"
"""The code of the error of a replica whose engine has ended: another one may take the request."""

UNLISTED_TEXT: Final = "unlisted_text"
"""The code of the error in place of a text that is not of its list."""

BEGUN: Final[Answer] = ""
"""What a replica yields before the answer, once the request's turn has come."""


class Caller(NamedTuple):
    """The name of a request's key, and the request's id. A replica adds the adapter with which rows are computed."""

    owner: str
    request_id: str
    adapter: str | None = None


class VocabularySpec(BaseModel):
    """The vocabulary as the client asks for it; ``protocol.vocabulary`` has checked it.

    Attributes:
        lang: The list, or a language tag that means it; with ``words``, the language whose rules of spelling apply, or
            None.
        n_words: N, in words or lemmas by ``unit``; None for all.
        reach: A larger N that the compiled list has to serve too; None for none.
        level: A named level in its place; None in a vocabulary whose level has been resolved.
        unit: What has a rank of its own: each ``form``, or each ``lemma`` with all its forms.
        safe: Whether profanity is left out of a language's built-in list.
        words: The client's own list, in rank order, instead of a list of that name.
        extra_words: Allowed whatever N.
        exclude_words: Left out, in every form.
        prompt: A text whose own words are allowed too, as ``PromptReader`` finds them; None for none, and in a
            vocabulary whose ``extra_words`` have them.
        case, numbers, punctuation, layout, end, segmentation, possessive: See ``ListOptions``. By default an answer
            ends with a sentence, or with a word where there are no marks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lang: str | None = None
    n_words: int | None = None
    reach: int | None = None
    level: str | None = None
    unit: Unit = "form"
    safe: bool = True
    words: tuple[str, ...] | None = None
    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    prompt: str | None = None
    case: Case = "auto"
    numbers: bool = False
    punctuation: Punctuation = "standard"
    layout: Layout = "prose"
    end: End = "sentence"
    segmentation: Segmentation = "longest"
    possessive: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _end_without_marks(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("punctuation") == "none":
            return {"end": "word", **values}
        return values

    def resolve(self, wordlist_dir: Path | None) -> Self:
        """Return the vocabulary with its level replaced by the list, N or words that it means, and a tag by its list.

        Raises:
            WordListError: As ``resolve_level`` and ``list_name``.
        """
        if self.level is not None:
            meant = resolve_level(self.level, self.lang, wordlist_dir)
            changes = {"level": None, "lang": meant.lang, "n_words": meant.n_words, "words": meant.words}
            return self.model_copy(update=changes).resolve(wordlist_dir)
        if self.lang is None or self.words is not None:
            return self
        return self.model_copy(update={"lang": list_name(self.lang, wordlist_dir)})

    def with_words_of_prompt(self, found: Sequence[PromptWord]) -> Self:
        """Return the vocabulary with what was found in its prompt as extra words."""
        extra_words = dict.fromkeys((*self.extra_words, *words_and_forms(found)))
        return self.model_copy(update={"extra_words": tuple(extra_words), "prompt": None})

    @property
    def options(self) -> ListOptions:
        """The list options: capitals, layout, numbers, marks, and where a text may end.

        Raises:
            OptionsError: The options contradict one another.
        """
        return ListOptions(
            case=self.case,
            layout=self.layout,
            numbers=self.numbers,
            punctuation=self.punctuation,
            end=self.end,
            segmentation=self.segmentation,
            possessive=self.possessive,
        )

    @property
    def changes(self) -> ListChanges:
        """The words added and left out, as they came: not yet normalized to NFC."""
        return ListChanges(self.extra_words, self.exclude_words)


USUAL_OPTIONS: Final = VocabularySpec(lang="en").options
"""Those of a request that names none."""


class NewWordsAsked(NamedTuple):
    """New words that a text may use: of the first ``n_words``, ``per_100`` in any 100 words, ``max_words`` in all."""

    n_words: int
    per_100: float = 2
    max_words: int | None = None


class AskedWord(NamedTuple):
    """A word that the text must use ``times`` times; in any listed form of its lemma, if asked."""

    word: str
    times: int = 1
    any_form: bool = False


class AuthorControls(NamedTuple):
    """What an author asks of a text beyond its list; None or empty for each thing not asked."""

    new_words: NewWordsAsked | None = None
    must_use: tuple[AskedWord, ...] = ()
    max_sentence_words: int | None = None
    min_sentences: int | None = None
    max_sentences: int | None = None

    @property
    def fields(self) -> list[str]:
        """Return the names of the fields that are set, such as ``vocab.must_use``."""
        return [f"vocab.{name}" for name, value in self._asdict().items() if value]


AUTO_ADAPTER: Final = "auto"
"""The adapter whose card fits the list, if one does."""


RESCUE_SHARE: Final = 0.05
"""Of the model's probability: what a list leaves it inside a word at least, where words are taken back."""


class Decoding(BaseModel):
    """How the text is chosen; by default one sample, as the engine draws it. ``protocol.decoding`` has the bounds.

    Attributes:
        num_beams: Width of a beam search; 1 for none.
        length_penalty: Finished beams are ranked by log p divided by their length to this power.
        early_stopping: When a search ends, as in transformers: ``True`` when there are ``num_beams`` finished texts,
            ``False`` when no better one is likely, ``"never"`` when no better one is possible.
        best_of: How many samples to choose from; 1 for no choice.
        search_width: How many continuations are drawn up to each sentence end; 1 for no such search.
        rescue: A word is taken back where the list leaves less than this share of the model's probability inside it; 0
            for never, None for the default, which depends on how the tokenizer splits the words of the list.
        select: How one of several is chosen: the likeliest by p, or drawn in proportion to p/q.
        no_repeat_ngram_size: How many tokens in a row may not come twice; 0 for any number, None for the default of the
            service, which depends on the model's tokenizer.
        score: Whether the answer always includes the cost of the constraint.
        hint: Whether a line of the prompt tells the model to use simple words.
        author: What the author asks of the text beyond the list.
        adapter: The adapter of a constrained request whose model is the base model: ``AUTO_ADAPTER``, a name, or None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    best_of: int = 1
    search_width: int = 1
    rescue: float | None = None
    select: Select = "likelihood"
    no_repeat_ngram_size: int | None = None
    score: bool = False
    hint: bool = False
    author: AuthorControls | None = None
    adapter: str | None = AUTO_ADAPTER

    def num_sequences(self, body: ChatBody) -> int:
        """Return how many sequences of the engine's batch a request takes up at once."""
        return num_prompts(body) * max(int(body.get("n") or 1), self.num_beams, self.best_of, self.search_width)

    @property
    def is_plain(self) -> bool:
        """Whether the answer is the engine's own sample: no search, no score."""
        return not self.score and max(self.num_beams, self.best_of, self.search_width) == 1


class ResolvedVocabulary(BaseModel):
    """The vocabulary as the replica uses it: by the digests of artefacts that exist.

    Attributes:
        digest: The artefact of the list: words, tokenizer and format.
        changes_digest: The artefact of the words added and left out, if any.
        grammar_digest: The artefact of xgrammar's grammar of these texts, where xgrammar makes the masks.
        options: What is allowed between the words.
        lang: The list; with a client's own words the language as asked for, or None.
        source: Where the words of the list come from: a file of the service, a built-in list, or the request.
        n_words: As asked for, at most the size of the list in ``unit``.
        unit: As asked for.
        fewest_tokens: Tokens of the shortest text, end-of-text token included; a smaller ``max_tokens`` cannot be
            served.
        prompt_words: What the prompt allowed; None where it was not asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(min_length=1)
    changes_digest: str | None = None
    grammar_digest: str | None = None
    options: ListOptions = USUAL_OPTIONS
    lang: str | None
    source: Source = "inline"
    n_words: int = Field(ge=1)
    unit: Unit = "form"
    fewest_tokens: int = Field(ge=1)
    prompt_words: tuple[PromptWord, ...] | None = None

    @property
    def id(self) -> str:
        """Digest of the list with its changes and options."""
        facts = [self.digest, self.changes_digest, self.options.as_dict()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of its artefacts: of the list, and of its changes and its grammar if there are any."""
        return tuple(filter(None, (self.digest, self.changes_digest, self.grammar_digest)))


@dataclass(frozen=True)
class TextRequest:
    """A checked request for text, from the ingress to the engine; ``vocabulary`` is None for free text."""

    fewer: ClassVar = ("tokens", "max_tokens")
    """What to ask for less of where an answer takes too long, and its field."""

    body: ChatBody
    vocabulary: ResolvedVocabulary | None
    decoding: Decoding
    caller: Caller

    @property
    def num_sequences(self) -> int:
        """How many sequences of the engine it takes at once."""
        return self.decoding.num_sequences(self.body)

    def with_body(self, **fields: Any) -> Self:
        """Return the request with these fields of its body."""
        return replace(self, body={**self.body, **fields})

    def with_decoding(self, **fields: Any) -> Self:
        """Return the request with these fields of its decoding, which are not validated."""
        return replace(self, decoding=self.decoding.model_copy(update=fields))


@dataclass(frozen=True)
class RowsRequest:
    """A checked request for next-token rows; where its body has ``token_ids``, for the log-probabilities of those."""

    fewer: ClassVar = ("prompts", "prompt")

    body: dict[str, Any]
    caller: Caller


@dataclass(frozen=True)
class WordToolRequest:
    """A checked request to a word tool; ``spec`` is the list as it was asked for."""

    fewer: ClassVar = ("words", "top")

    tool: Tool
    body: dict[str, Any]
    vocabulary: ResolvedVocabulary
    spec: VocabularySpec
    caller: Caller


@dataclass(frozen=True)
class TokensRequest:
    """A request for the tokens of a text, or the text of tokens; with an empty body, for all tokens of the model."""

    fewer: ClassVar = ("tokens", "max_tokens")

    body: dict[str, Any]
    caller: Caller


ReplicaRequest: TypeAlias = TextRequest | RowsRequest | WordToolRequest | TokensRequest
"""What the ingress asks of a replica."""


@dataclass(frozen=True)
class LineRequest:
    """A batch line sent to a replica: its chat request's body, the name of its batch's key, and an id for logs."""

    body: dict[str, Any]
    owner: str
    request_id: str


LineAnswer: TypeAlias = dict[str, Any] | ApiError
"""The answer to a batch line: a chat completion, or the error in its place."""


def status_and_body(answer: LineAnswer) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status of the answer to a batch line, and its body: a chat completion or OpenAI's error."""
    return (answer.status, json.loads(answer.to_json())) if isinstance(answer, ApiError) else (200, answer)
