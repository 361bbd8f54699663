"""The sentences of a text that exercises are made of, and the words in them that can be asked for."""

import unicodedata
from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from deployments.replica.engine.node_lists import NodeList
from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.wordlists import WordList
from vocab.text.changes import ranks_left_out
from vocab.text.checker import TextChecker
from vocab.text.report import CheckedWord, TextReport
from vocab.text.sentences import sentence_spans
from vocab.text.units import word_pattern

NUM_FUNCTION_WORDS: Final = 120
"""The most frequent words of a language say how a sentence is built, not what it is about."""

_MIN_CHARS: Final = 3
_MIN_CHARS_UNSPACED: Final = 2
"""Of a word of a language without spaces, most of which have one or two characters."""
_MIN_WORDS: Final = 3
"""Of a sentence; "Oh no!" asks for nothing."""

_NUM_NEAR: Final = 300
"""Words next to one in rank: about as frequent."""

_NUM_ALIKE: Final = 60
"""Of those, the ones with an ending most like its own are candidates for wrong options."""

_MAX_ENDING: Final = 3

_QUESTION_MARKS: Final = ("?", "？")


class ContentWord(NamedTuple):
    """A listed word of a sentence that can be asked for; ``start`` and ``end`` are those in the text."""

    text: str
    start: int
    end: int
    rank: int


class Sentence(NamedTuple):
    """A sentence of a text whose words are all in the list; ``content`` has the rarest word first."""

    text: str
    start: int
    words: Sequence[str]
    content: Sequence[ContentWord]

    @property
    def source(self) -> dict[str, int]:
        return {"start": self.start, "end": self.start + len(self.text)}

    def around(self, word: ContentWord) -> tuple[str, str]:
        """Return what stands before a word of the sentence, and after it."""
        return self.text[: word.start - self.start], self.text[word.end - self.start :]


class ListedText:
    """The listed sentences of a text, and the words of a list that resemble one of its words.

    ``checker`` is of the words of ``word_list``, without those of the ranks ``left_out``.

    Attributes:
        sentences: Those whose words are all listed, in their order, each once.
        num_sentences: All of the text.
        num_unlisted: Those with a word that is not listed.
    """

    def __init__(self, text: str, checker: TextChecker, word_list: WordList, left_out: Set[int] = frozenset()) -> None:
        self._checker = checker
        self._lemmas = KnownLemmas.of_language(word_list.language)
        self._is_unspaced = word_list.is_unspaced
        self._min_chars = _MIN_CHARS_UNSPACED if self._is_unspaced else _MIN_CHARS
        # In German every noun has a capital; elsewhere a capital is a name's.
        self._has_noun_capitals = word_list.language == "de"
        # A client's own list is in any order.
        self._least_rank = 0 if word_list.source == "inline" else NUM_FUNCTION_WORDS
        self._pool = [
            (rank, word)
            for rank, word in word_list.ranked()
            if rank > self._least_rank and rank not in left_out and self._can_be_asked(word)
        ]
        report = checker.check(text)
        spans = sentence_spans(text)
        found = {text[start:end]: self._sentence(report, start, end) for start, end in reversed(spans)}
        self.sentences = [sentence for sentence in reversed(found.values()) if sentence is not None]
        self.num_sentences = len(spans)
        self.num_unlisted = sum(any(start <= word.start < end for word in report.not_allowed) for start, end in spans)

    @classmethod
    def of(cls, text: str, listed: NodeList) -> "ListedText":
        """Read a text by the words of a list, with its changes."""
        word_list = listed.listed.word_list.up_to(listed.n_words)
        return cls(text, listed.checker(), word_list, ranks_left_out(word_list, listed.changes.exclude_words))

    def allows(self, text: str) -> bool:
        """Return whether all words of a text are listed."""
        return not self._checker.check(text).not_allowed

    def words_in(self, text: str) -> list[str]:
        """Return the words of a text, listed or not."""
        if self._is_unspaced:
            report = self._checker.check(text)
            return [report.spelling(word) for word in report.words]
        return [match[0] for match in word_pattern().finditer(text)]

    def _allows_word(self, before: str, word: str, after: str) -> bool:
        """Return whether all words of a text are listed, and a part of it is one of them: without spaces it may not."""
        report = self._checker.check(before + word + after)
        span = len(before), len(before) + len(word)
        return not report.not_allowed and (not self._is_unspaced or any(one[:2] == span for one in report.words))

    def is_question(self, text: str, sentence: Sentence, word: ContentWord) -> bool:
        """Return whether a text is a question about a sentence that does not have the answer, ``word``, in it."""
        said = {one.casefold() for one in self.words_in(text)}
        others = {one.text.casefold() for one in sentence.content} - {word.text.casefold()}
        is_about = not others or not others.isdisjoint(said)
        return text.endswith(_QUESTION_MARKS) and word.text.casefold() not in said and is_about

    def same_lemma(self, word: str) -> list[str]:
        """Return the listed words that are forms of the same lemma, the word itself among them."""
        lemma = self._lemma(word)
        return [word, *(other for _, other in self._pool if other != word and self._lemma(other) == lemma)]

    def alike(self, word: ContentWord, sentence: Sentence) -> list[str]:
        """Return listed words about as frequent as one of a sentence that may be of the same part of speech.

        They are base forms where it is one, and have its ending where words do: "wanted" and "helped", "tenía" and
        "hacía". Without spaces they are as long where they can be. None is of its lemma or stands in the sentence.
        """
        lemma, said = self._lemma(word.text), {other.casefold() for other in sentence.words}
        near = sorted(self._pool, key=lambda ranked: abs(ranked[0] - word.rank))[:_NUM_NEAR]
        lemmas = {
            other: self._lemma(other)
            for _, other in near
            if other.casefold() not in said and other[:1].isupper() == word.text[:1].isupper()
        }

        def difference(other: str) -> tuple[bool, int, int]:
            is_other_form = (lemmas[other] == other.casefold()) != (lemma == word.text.casefold())
            by_length = abs(len(other) - len(word.text)) if self._is_unspaced else 0
            return is_other_form, by_length, -_common_ending(word.text, other)

        candidates = sorted((other for other in lemmas if lemmas[other] != lemma), key=difference)[:_NUM_ALIKE]
        before, after = sentence.around(word)
        return [other for other in candidates if self._allows_word(before, other, after)]

    def _lemma(self, word: str) -> str:
        return (self._lemmas.of(word) or word).casefold()

    def _can_be_asked(self, word: str) -> bool:
        is_name = word[:1].isupper() and not self._has_noun_capitals
        # The vowels of many scripts are marks upon letters.
        has_letters_only = all(unicodedata.category(character)[0] in "LM" for character in word)
        return len(word) >= self._min_chars and has_letters_only and not is_name

    def _sentence(self, report: TextReport, start: int, end: int) -> Sentence | None:
        """Return a sentence of a checked text; None for one that is short, or not listed."""
        words = [word for word in report.words if start <= word.start < end]
        if len(words) < _MIN_WORDS or not all(word.is_allowed for word in words):
            return None
        content = [
            ContentWord(report.spelling(word), word.start, word.end, word.rank or 0)
            for word in words[1:]
            if self._is_content(report, word)
        ]
        by_rank = sorted(content, key=lambda word: -word.rank)
        return Sentence(report.text[start:end], start, list(map(report.spelling, words)), by_rank)

    def _is_content(self, report: TextReport, word: CheckedWord) -> bool:
        is_rare = word.reason == "listed" and word.rank is not None and word.rank > self._least_rank
        return is_rare and self._can_be_asked(report.spelling(word))


def _common_ending(first: str, second: str) -> int:
    pairs = zip(reversed(first[-_MAX_ENDING:]), reversed(second[-_MAX_ENDING:]), strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), _MAX_ENDING)
