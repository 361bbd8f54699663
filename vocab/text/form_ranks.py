"""Look up the ranks of a form by applying the rules of ``vocab.text.forms`` backwards: from "Cat’s" to "cat".

A table of the forms of wordfreq's English list has 1.8 million strings; this one has its 312,000 words.
"""

from collections.abc import Iterator
from typing import Final

from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES
from vocab.options import ListOptions
from vocab.text.forms import Capitals, has_apostrophe, has_possessives, resolve_case, spellings

_POSSESSIVES: Final = tuple(apostrophe + "s" for apostrophe in APOSTROPHES)


class FormRanks:
    """Ranks of the forms of one list; share one between readers of different N.

    Words of ranks above ``n_words`` are left out, to save memory, but count for ``case: auto``. ``lengths`` has every
    length of a form, in characters, ascending.
    """

    def __init__(self, word_list: WordList, options: ListOptions, n_words: int | None = None) -> None:
        self._case = resolve_case(word_list, options)
        self._has_possessive = has_possessives(word_list)
        self._spelled = _RanksByText()
        # Forms whose first letter has melted with the mark after it: "i̇" gives "İ".
        self._melted = _RanksByText()
        self._small_letters: dict[str, set[str]] = {}
        capitals = Capitals(word_list.language)
        listed = word_list if n_words is None else word_list.up_to(n_words)
        for rank, word in listed.ranked():
            for text in spellings(word, has_possessive=False):
                self._spelled.add(text, rank)
                if self._case != "listed" and (capital := capitals.of(text)) is not None:
                    self._add_capital(text, capital, rank)
        lengths = {len(text) for text in (*self._spelled.best, *self._melted.best)}
        if self._has_possessive:
            lengths |= {length + 2 for length in lengths}
        self.lengths = sorted(lengths)

    def _add_capital(self, text: str, capital: str, rank: int) -> None:
        """Record a form with a capital: by its two letters, or whole where the capital took in a mark."""
        if capital[1:] == text[1:]:
            self._small_letters.setdefault(capital[0], set()).add(text[0])
        else:
            self._melted.add(capital, rank)

    def rank(self, text: str, *, starts_sentence: bool) -> int | None:
        """Return the best rank of a word that may be written as ``text``; None for none."""
        return min(self.ranks(text, starts_sentence=starts_sentence), default=None)

    def ranks(self, text: str, *, starts_sentence: bool) -> Iterator[int]:
        """Yield the ranks of all words that may be written as ``text``, in no order; may repeat."""
        capital_allowed = self._case == "any" or (self._case == "sentence" and starts_sentence)
        yield from self._ranks_of_base(text, capital_allowed)
        if self._has_possessive and text.endswith(_POSSESSIVES) and not has_apostrophe(text[:-2]):
            yield from self._ranks_of_base(text[:-2], capital_allowed)

    def _ranks_of_base(self, base: str, capital_allowed: bool) -> Iterator[int]:
        """Yield the ranks of a text as it is and, where a capital is allowed, with a small first letter."""
        yield from self._spelled.of(base)
        if capital_allowed and base:
            yield from self._melted.of(base)
            for small in self._small_letters.get(base[0], ()):
                yield from self._spelled.of(small + base[1:])


class _RanksByText:
    """The ranks of each text. Nearly all have one; where words share ranks there may be more."""

    def __init__(self) -> None:
        self.best: dict[str, int] = {}
        """The first rank that was added, by text."""
        self._others: dict[str, list[int]] = {}

    def add(self, text: str, rank: int) -> None:
        if self.best.setdefault(text, rank) != rank:
            self._others.setdefault(text, []).append(rank)

    def of(self, text: str) -> Iterator[int]:
        if text in self.best:
            yield self.best[text]
            yield from self._others.get(text, ())
