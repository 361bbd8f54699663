"""What travels between the deployments of the graph.

The body of a chat request travels as a plain dict of JSON types, checked by the ingress and never trusted to hold
anything but what the ingress put there; the vocabulary travels beside it, by digest. Nothing here knows of HTTP,
of Ray or of the engine.
"""

import hashlib
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vocab.options import Case, End, Layout, ListOptions, Punctuation
from vocab.text.changes import ListChanges

ChatBody: TypeAlias = dict[str, Any]
"""An OpenAI chat request, validated: JSON types only, no ``vocab`` field, always with ``model``, ``messages`` and an
explicit ``max_tokens`` (never ``max_completion_tokens``). Lines of batches have a ``priority``; a client's never comes
so far."""

Answer: TypeAlias = str | dict[str, Any]
"""One item of an answer: a server-sent event (``"data: …\\n\\n"``) of a stream, or the one dict of a whole answer.
The first item may instead be ``{"error": {"message", "type", "param", "code", "status"}}``."""

Unit: TypeAlias = Literal["form", "lemma"]


class VocabularySpec(BaseModel):
    """The vocabulary as the client asks for it.

    Attributes:
        lang: The list; beside ``words`` the language whose rules of spelling hold. None only beside ``words``.
        n_words: How many of its words count, or lemmas where they are the unit; None for all of them.
        unit: What has a rank of its own: each ``form``, or each ``lemma`` with all its forms.
        words: The client's own list, in rank order, instead of a list of that name.
        extra_words: Allowed besides, whatever N.
        exclude_words: Left out, in every form.
        case, numbers, punctuation, layout, end: See ``ListOptions``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lang: str | None = Field(default=None, min_length=1)
    n_words: int | None = Field(default=None, ge=1)
    unit: Unit = "form"
    words: tuple[str, ...] | None = Field(default=None, min_length=1)
    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    case: Case = "auto"
    numbers: bool = False
    punctuation: Punctuation = "full"
    layout: Layout = "prose"
    end: End = "word"

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.lang is None and self.words is None:
            raise ValueError("a vocabulary needs lang or words")
        if self.words is not None and self.unit == "lemma":
            raise ValueError("the lemmas of an inline list are not known")
        return self

    @property
    def options(self) -> ListOptions:
        """What of it changes the artefact, besides the list.

        Raises:
            OptionsError: The options contradict one another.
        """
        return ListOptions(
            case=self.case, layout=self.layout, numbers=self.numbers, punctuation=self.punctuation, end=self.end
        )

    @property
    def changes(self) -> ListChanges:
        """What of it needs no compile of the list; the words as they came, not yet made NFC."""
        return ListChanges(self.extra_words, self.exclude_words)


Select: TypeAlias = Literal["likelihood", "posterior"]


class Decoding(BaseModel):
    """How the text is chosen; the default is one sample, as the engine draws it.

    Attributes:
        num_beams: Beam search of this width; 1 for none.
        length_penalty: Finished beams are ranked by log p divided by their length to this power.
        early_stopping: When a search ends, as in transformers: ``True`` when there are ``num_beams`` finished texts,
            ``False`` when no better one is likely, ``"never"`` when no better one is possible.
        best_of: How many samples are drawn to choose from; 1 for no choice.
        search_width: How many continuations are drawn up to each sentence end; 1 for no such search.
        select: How one of several is chosen: the likeliest by p, or drawn in proportion to p/q.
        no_repeat_ngram_size: How many tokens in a row may not come twice; 0 for any number.
        score: Whether the answer says what the constraint cost, also where the method would not compute it.
        hint: Whether the model is told, in a line of its own, to use simple words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_beams: int = Field(default=1, ge=1, le=16)
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    best_of: int = Field(default=1, ge=1, le=16)
    search_width: int = Field(default=1, ge=1, le=16)
    select: Select = "likelihood"
    no_repeat_ngram_size: int = Field(default=0, ge=0, le=64)
    score: bool = False
    hint: bool = False

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if sum(width > 1 for width in (self.num_beams, self.best_of, self.search_width)) > 1:
            raise ValueError("beams, candidates and sentence search exclude one another")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether the engine's own sample is the answer, and nothing more is asked of it."""
        return not self.score and max(self.num_beams, self.best_of, self.search_width) == 1


class ResolvedVocabulary(BaseModel):
    """The vocabulary as the replica uses it: artefacts that exist.

    Attributes:
        digest: Names the artefact of the list: words, options, tokenizer and format.
        exclusion_digest: Names the artefact of what is left out of it; None for nothing.
        extra_digest: Names the artefact of the words added to it; None for none.
        lang: As asked for; None for a client's own list without a language.
        n_words: As asked for, also where the list is shorter; else the size of the list in ``unit``.
        unit: As asked for.
        fewest_tokens: How many tokens the shortest text needs, end-of-text token included: a smaller ``max_tokens``
            cannot be served.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(min_length=1)
    exclusion_digest: str | None = None
    extra_digest: str | None = None
    lang: str | None
    n_words: int = Field(ge=1)
    unit: Unit = "form"
    fewest_tokens: int = Field(ge=1)

    @property
    def id(self) -> str:
        """Names the list together with its changes: that of the list where there are none."""
        if len(self.digests) == 1:
            return self.digest
        parts = (self.digest, self.exclusion_digest or "-", self.extra_digest or "-")
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @property
    def digests(self) -> tuple[str, ...]:
        """Every artefact that it needs."""
        return tuple(digest for digest in (self.digest, self.exclusion_digest, self.extra_digest) if digest)
