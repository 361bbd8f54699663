"""How the text is chosen, and what an author asks of it beyond the list.

These are the top-level fields of a search, and members of ``vocab``; with the defaults of a request with a vocabulary,
which read best in ``docs/quality.md``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from deployments.contract import RESCUE_SHARE, AskedWord, AuthorControls, Decoding, NewWordsAsked, VocabularySpec
from deployments.errors import BadRequestError
from deployments.protocol.validation import INT64_MAX, Body, at_most
from deployments.settings.limits import MAX_MUST_USE, MAX_NGRAM_SIZE, MAX_WIDTH, MAX_WORD_CHARS
from vocab.decoding.select import Select
from vocab.errors import InvalidWordListError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import unspaced_language

DEFAULT_SAMPLING: Final[Mapping[str, float]] = {"temperature": 0.3, "min_p": 0.1, "presence_penalty": 1.0}
"""Sampling of a single constrained answer. What is left after the mask is flat, so a constrained text reads worse at
random than a free one and is drawn colder; and drawn cold without a penalty, one in six comes back to the same word
again and again. Free text keeps the engine's own defaults."""

CANDIDATE_SAMPLING: Final[Mapping[str, float]] = {"temperature": 0.5}
"""Of several to choose from: warmer, so that they differ, and without cuts, so that p / q is known."""

_MAX_RESCUE: Final = 0.5
"""A mask that leaves more than half is no corner, and going back costs more and more."""

_SAMPLING: Final = frozenset({"min_p", "temperature", "top_k", "top_p"})

_GREEDY_BELOW: Final = 1e-5
"""vLLM takes a lower temperature for 0 (``vllm.sampling_params._SAMPLING_EPS``)."""


class Search(Body):
    """A search sentence by sentence."""

    width: Annotated[int, Field(ge=2, le=MAX_WIDTH)]
    """How many continuations are drawn up to each sentence end."""


class DecodingMembers(Body):
    """The members of ``vocab`` that are no part of the vocabulary."""

    select: Select | None = None
    """How one of several texts is chosen: the likeliest (the default), or drawn in proportion to p/q."""
    search: Search | None = None
    """Choose the text sentence by sentence."""
    rescue: bool | Annotated[float, Field(ge=0, le=_MAX_RESCUE)] | None = None
    """Whether a word is written again where the list leaves less than a share of the model's probability inside it; a
    number is that share. By default where the tokenizer splits the words of the list."""
    hint: bool | None = None
    """Whether the model is told, in a line of its own, to use simple words; the service's settings have the default."""
    score: bool | None = None
    """Whether the answer says what the constraint cost."""


class DecodingFields(Body):
    num_beams: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    """Beam search of this width."""
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    """Finished beams are ranked by log p divided by their length to this power."""
    early_stopping: bool | Literal["never"] | None = None
    """When a beam search ends, as in transformers."""
    best_of: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    """Draw so many texts and choose among them."""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=MAX_NGRAM_SIZE)] | None = None
    """So many tokens in a row may not come twice; 0 for any number."""


def decoding_of(
    fields: Mapping[str, Any], members: DecodingMembers | None, *, has_vocabulary: bool, hint: bool
) -> Decoding:
    """Return the ``Decoding`` of a request.

    ``fields`` are all checked top-level fields but ``vocab``, as JSON, and ``members`` the ``vocab`` object;
    ``hint`` is the default of a request with a vocabulary.

    Raises:
        BadRequestError: The texts to choose from would be the same, or fewer than asked for.
    """
    members = members or DecodingMembers()
    widths = {
        "num_beams": fields.get("num_beams", 1),
        "best_of": fields.get("best_of", 1),
        "vocab.search": members.search.width if members.search else 1,
    }
    for name in ("best_of", "vocab.search"):
        if widths[name] > 1 and fields.get("temperature", 1) < _GREEDY_BELOW:
            raise BadRequestError(
                f"'temperature' must be above 0 with '{name}': at 0 all the texts to choose from would be the same.",
                "temperature",
            )
    _check_n(fields, widths)
    return Decoding(
        num_beams=widths["num_beams"],
        length_penalty=fields.get("length_penalty", 1.0),
        early_stopping=fields.get("early_stopping", False),
        best_of=widths["best_of"],
        search_width=widths["vocab.search"],
        rescue=_rescue_of(members),
        select=members.select or "likelihood",
        no_repeat_ngram_size=fields.get("no_repeat_ngram_size"),
        score=bool(members.score),
        hint=has_vocabulary and (hint if members.hint is None else members.hint),
    )


def sampling_defaults(fields: Mapping[str, Any], decoding: Decoding) -> Mapping[str, float]:
    """Return the default sampling of a constrained request; none where it sets some or has beams."""
    if decoding.num_beams > 1 or not _SAMPLING.isdisjoint(fields):
        return {}
    return CANDIDATE_SAMPLING if max(decoding.best_of, decoding.search_width) > 1 else DEFAULT_SAMPLING


def _rescue_of(members: DecodingMembers) -> float | None:
    if members.rescue is None:
        return None
    return RESCUE_SHARE if members.rescue is True else float(members.rescue)


def _check_n(fields: Mapping[str, Any], widths: Mapping[str, int]) -> None:
    n = fields.get("n", 1)
    if widths["vocab.search"] > 1 and n > 1:
        raise BadRequestError("'n' must be 1 with 'vocab.search', which finds one text.", "n")
    for name in ("num_beams", "best_of"):
        is_given = widths[name] > 1 or (name == "best_of" and name in fields)
        if is_given and n > widths[name]:
            raise BadRequestError(f"'n' must not be larger than '{name}'.", "n")


_MAX_USES: Final = 64
"""Of all required words together."""

_SENTENCE_LIMITS: Final = ("max_sentence_words", "min_sentences", "max_sentences")


class NewWordsMembers(Body):
    """Different words from beyond the list; one that came may come again."""

    n_words: Annotated[int, Field(ge=1, le=INT64_MAX)]
    """They are among so many words of the list, more than ``vocab.n_words``."""
    per_100: Annotated[float, Field(ge=0.1, le=100)] | None = None
    """How many in any 100 words in a row, by default 2. They are spread: each is so far from the one before."""
    max: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many in the whole text; by default as many as the rate allows."""


class MustUseMembers(Body):
    word: Annotated[str, Field(min_length=1, max_length=MAX_WORD_CHARS)]
    """Need not be listed."""
    count: Annotated[int, Field(ge=1, le=_MAX_USES)] | None = None
    """How often it has to occur; by default once."""
    any_form: bool | None = None
    """Whether a listed form of the same lemma counts too: "went" for "go"."""


class AuthorMembers(Body):
    new_words: NewWordsMembers | None = None
    """Words from beyond the list that may come besides; the answer lists them for a glossary."""
    must_use: Annotated[list[MustUseMembers], at_most(MAX_MUST_USE)] | None = None
    """Words that have to occur. The answer says how often each did: a text ends within ``max_tokens`` in any case."""
    max_sentence_words: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Words of a sentence at most."""
    min_sentences: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The text does not end before, unless ``max_tokens`` does."""
    max_sentences: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The text ends with this sentence."""

    def with_words(self, spec: VocabularySpec) -> VocabularySpec:
        """Check these members; return the vocabulary with required words, and a reach for new words.

        Raises:
            BadRequestError: The members do not go with it, or with one another.
        """
        for name in _SENTENCE_LIMITS:
            if getattr(self, name) is not None and spec.end != "sentence":
                raise BadRequestError(
                    f"'vocab.{name}' counts sentences, and this text may end with any word: leave it out, or let 'end' "
                    "be 'sentence' and 'punctuation' have sentence marks.",
                    f"vocab.{name}",
                )
        if self.max_sentences is not None and (self.min_sentences or 0) > self.max_sentences:
            raise BadRequestError(
                "'vocab.min_sentences' must not be larger than 'vocab.max_sentences'.", "vocab.min_sentences"
            )
        update: dict[str, object] = {}
        if self.new_words is not None:
            if spec.n_words is None or spec.n_words >= self.new_words.n_words:
                raise BadRequestError(
                    "'vocab.new_words.n_words' must be larger than 'vocab.n_words', for new words are those of the "
                    "list beyond it.",
                    "vocab.new_words.n_words",
                )
            update["reach"] = self.new_words.n_words
        if self.must_use:
            words = self._clean_must_use(unspaced_language(spec.lang))
            update["extra_words"] = tuple(dict.fromkeys((*spec.extra_words, *words)))
        return spec.model_copy(update=update)

    def controls(self) -> AuthorControls | None:
        """Return what the author asks, for the replica; None where nothing is asked."""
        words = self._clean_must_use() if self.must_use else ()
        new = self.new_words
        asked = AuthorControls(
            new_words=None if new is None else NewWordsAsked(new.n_words, new.per_100 or 2, new.max),
            must_use=tuple(
                AskedWord(word, one.count or 1, bool(one.any_form))
                for word, one in zip(words, self.must_use or (), strict=True)
            ),
            max_sentence_words=self.max_sentence_words,
            min_sentences=self.min_sentences,
            max_sentences=self.max_sentences,
        )
        return None if asked == AuthorControls() else asked

    def _clean_must_use(self, unspaced: str | None = None) -> tuple[str, ...]:
        """Return the required words, normalized as a list's entries are; ``unspaced`` as in ``clean_words``."""
        asked = self.must_use or []
        if sum(one.count or 1 for one in asked) > _MAX_USES:
            raise BadRequestError(
                f"'vocab.must_use' must be at most {_MAX_USES} uses of words together.", "vocab.must_use"
            )
        words = []
        for index, one in enumerate(asked):
            try:
                [word] = clean_words([one.word], "vocab.must_use", unspaced)
            except InvalidWordListError as error:
                raise BadRequestError(
                    str(error).replace("[0]", f"[{index}].word", 1), f"vocab.must_use[{index}].word"
                ) from None
            if word in words:
                raise BadRequestError(
                    f"'vocab.must_use[{index}].word' was named before: name a word once, with a 'count'.",
                    f"vocab.must_use[{index}].word",
                )
            words.append(word)
        return tuple(words)
