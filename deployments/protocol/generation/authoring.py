"""What an author asks beyond a list, as members of ``vocab``: new words, words that must occur, limits of sentences."""

from typing import Annotated, Final

from pydantic import Field

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked, VocabularySpec
from deployments.errors import BadRequestError
from deployments.protocol.validation import INT64_MAX, Body, at_most
from deployments.settings.limits import MAX_MUST_USE, MAX_WORD_CHARS
from vocab.errors import InvalidWordListError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import unspaced_language

MAX_USES: Final = 64
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
    count: Annotated[int, Field(ge=1, le=MAX_USES)] | None = None
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
        if self.min_sentences is not None and self.max_sentences is not None:
            _check_order(self.min_sentences, self.max_sentences)
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
        if sum(one.count or 1 for one in asked) > MAX_USES:
            raise BadRequestError(
                f"'vocab.must_use' must be at most {MAX_USES} uses of words together.", "vocab.must_use"
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


def _check_order(min_sentences: int, max_sentences: int) -> None:
    if min_sentences > max_sentences:
        raise BadRequestError(
            "'vocab.min_sentences' must not be larger than 'vocab.max_sentences'.", "vocab.min_sentences"
        )
