"""Look up in a text the words of a list: those of rank N and better, those added, none that is left out."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from typing_extensions import override

from vocab import marks
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import ListChanges, ranks_left_out
from vocab.text.forms import FormRanks
from vocab.text.segmented.segmenter import Dictionary, Segmenter, dictionary_of

_BEHIND_WORDS: Final = frozenset(marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.JOINING_DASH)
"""Begins a gap; after an elision, which ends in an apostrophe, stands the next word."""

_SEPARATOR: Final = "\n"


class Words:
    """Look words up; a listed one is numbered by its rank, one that is only added by a number below 0."""

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        form_ranks: FormRanks | None,
        changes: ListChanges,
    ) -> None:
        self._word_list = word_list
        self._listed = form_ranks or FormRanks(word_list, options, n_words)
        self._n_words = n_words
        self._left_out = ranks_left_out(word_list.up_to(n_words), changes.exclude_words)
        self._extra_words = WordList(word_list.lang, changes.extra_words, "inline")
        self._extra = FormRanks(self._extra_words, replace(options, case="sentence"))
        # "Ana" may be written in a way that only the added word has, and counts as the listed word all the same.
        self._names = [self._rank_of(word, False) or -i for i, word in self._extra_words.ranked()]
        self._lengths = sorted({*self._listed.lengths, *self._extra.lengths})
        self.max_length = max(*self._lengths, marks.MAX_NUMBER_CHARS)

    def numbers(self, text: str) -> frozenset[int]:
        """Return the ranks of all listed words that ``text`` may write, and the number of an added one."""
        ranks = {*self._listed.ranks(text, starts_sentence=True), *self._listed.ranks(text, starts_sentence=False)}
        listed = {rank for rank in ranks if rank <= self._n_words and rank not in self._left_out}
        return frozenset(listed | {-i for i, word in self._extra_words.ranked() if word == text})

    def is_begun(self, word: str) -> bool:
        """Return whether a word is only the beginning of a listed one; words beyond N count where none is within."""
        if not word or self._word(word, True) is not None:
            return False
        begun = _SEPARATOR + _fold_case(word)
        for words in ((*self._word_list.up_to(self._n_words).words, *self._extra_words.words), self._word_list.words):
            # One text is searched at once: 30 ms for the longest list, a tenth of what its words take one by one.
            listed = _SEPARATOR + _fold_case(_SEPARATOR.join(words)) + _SEPARATOR
            if begun in listed:
                return begun + _SEPARATOR not in listed
        return False

    def starting_at(self, text: str, position: int, starts_sentence: bool) -> list[tuple[int, int]]:
        """Return (end, number) of every word of ``text`` that begins at ``position``."""
        found = []
        for length in self._lengths:
            end = position + length
            if end > len(text):
                break
            # Nothing else follows a word, so most lengths need no lookup: 9 ms, not 42, for 3,000 characters.
            if end < len(text) and text[end] not in _BEHIND_WORDS and text[end - 1] not in marks.APOSTROPHES:
                continue
            word = self._word(text[position:end], starts_sentence)
            if word is not None:
                found.append((end, word))
        return found

    def _word(self, text: str, starts_sentence: bool) -> int | None:
        """Return the number of the word that ``text`` writes: a rank, or below 0 if only added; None for none."""
        listed = self._rank_of(text, starts_sentence)
        if listed is not None:
            return listed
        extra = self._extra.rank(text, starts_sentence=starts_sentence)
        return None if extra is None else self._names[extra - 1]

    def _rank_of(self, text: str, starts_sentence: bool) -> int | None:
        """Return the best rank of an allowed listed word that ``text`` writes; None for none."""
        ranks = self._listed.ranks(text, starts_sentence=starts_sentence)
        return min((rank for rank in ranks if rank <= self._n_words and rank not in self._left_out), default=None)


class SegmentedWords(Words):
    """Look up words that follow one another without a gap, cut by the options' ``segmentation``."""

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        form_ranks: FormRanks | None,
        changes: ListChanges,
        reference: Dictionary | None = None,
    ) -> None:
        super().__init__(word_list, options, n_words, form_ranks, changes)
        self._dictionary = dictionary_of(word_list, changes, reference)
        self.max_length = max(self._dictionary.max_length, marks.MAX_NUMBER_CHARS)
        self.is_longest = options.segmentation == "longest"
        segmenter = Segmenter(self._dictionary, lambda text: self._word(text, True))
        self._found_at = segmenter.longest_at if self.is_longest else segmenter.allowed_at

    @override
    def starting_at(self, text: str, position: int, starts_sentence: bool) -> list[tuple[int, int]]:
        """Return (end, number) of every word of ``text`` that may begin at ``position``."""
        return self._found_at(text, position)

    @override
    def is_begun(self, word: str) -> bool:
        """Return whether a text that ends with this run breaks off inside a word, and its beginning is none."""
        position = 0
        while position < len(word):
            end = self._dictionary.longest_at(word, position)
            if end == position and self._dictionary.has_longer(word[position:]):
                return True
            position = max(end, position + 1)
        return False

    def begun_at(self, text: str, starts: Iterable[int]) -> int | None:
        """Return the first of ``starts`` where a word begins that may go on after the end of ``text``; None for none.

        ``starts`` are ascending, all before the end.
        """
        return next((start for start in starts if self._dictionary.has_longer(text[start:])), None)


def _fold_case(text: str) -> str:
    """Fold capitals and apostrophes, to find a text's last word among listed ones."""
    typewriter, curly = marks.APOSTROPHES
    return text.casefold().replace(curly, typewriter)
