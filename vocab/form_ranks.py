"""The rank of a given form, without a table of all forms.

It reads the rules of ``forms.py`` backwards: from "Cat’s" to "cat". A table of the forms of wordfreq's English list
has 1.8 million strings; this one has its 312,000 words. Knows nothing of marks or of N.
"""

from collections.abc import Iterator
from typing import Final

from vocab.forms import ELISION_LANGUAGES, POSSESSIVE_LANGUAGES, Capitals, resolve_case, spellings
from vocab.marks import APOSTROPHES
from vocab.options import ListOptions
from vocab.wordlists import WordList

_POSSESSIVES: Final = tuple(apostrophe + "s" for apostrophe in APOSTROPHES)


class FormRanks:
    """Ranks of the forms of one list; share one between readers of different N.

    Args:
        word_list: The list; its case is decided from all of it.
        options: Its options.
        n_words: Leaves out all words behind the first so many, and their memory.

    Attributes:
        lengths: Every length that a form has, in characters, ascending.
    """

    def __init__(self, word_list: WordList, options: ListOptions, n_words: int | None = None) -> None:
        self._case = resolve_case(word_list, options)
        self._elides = word_list.language in ELISION_LANGUAGES
        self._has_possessive = word_list.language in POSSESSIVE_LANGUAGES
        self._ranks: dict[str, int] = {}
        # Forms whose first letter has melted with the mark behind it: "i̇" gives "İ".
        self._melted: dict[str, int] = {}
        self._small_letters: dict[str, set[str]] = {}
        capitals = Capitals(word_list.language)
        for rank, word in enumerate(word_list.words[:n_words], start=1):
            for text in spellings(word, has_possessive=False):
                self._ranks.setdefault(text, rank)
                if self._case != "listed" and (capital := capitals.of(text)) is not None:
                    self._add_capital(text, capital, rank)
        lengths = {len(text) for text in (*self._ranks, *self._melted)}
        if self._has_possessive:
            lengths |= {length + 2 for length in lengths}
        self.lengths = sorted(lengths)

    def _add_capital(self, text: str, capital: str, rank: int) -> None:
        if capital[1:] == text[1:]:
            self._small_letters.setdefault(capital[0], set()).add(text[0])
        else:
            self._melted.setdefault(capital, rank)

    def rank(self, text: str, *, starts_sentence: bool) -> int | None:
        """Rank of the best word that ``text`` writes at such a place; None when it writes none."""
        capital_allowed = self._case == "any" or (self._case == "sentence" and starts_sentence)
        bases = [text]
        if self._has_possessive and text.endswith(_POSSESSIVES) and not _has_apostrophe(text[:-2]):
            bases.append(text[:-2])
        ranks = [rank for base in bases if base for rank in self._ranks_of_base(base, capital_allowed)]
        return min(ranks, default=None)

    def _ranks_of_base(self, base: str, capital_allowed: bool) -> Iterator[int]:
        candidates = [self._ranks.get(base)]
        if capital_allowed:
            candidates.append(self._melted.get(base))
            candidates += [self._ranks.get(small + base[1:]) for small in self._small_letters.get(base[0], ())]
        return (rank for rank in candidates if rank is not None)

    def is_elision(self, text: str) -> bool:
        """Whether a form of this text is followed directly by a word."""
        return self._elides and text[-1] in APOSTROPHES


def _has_apostrophe(text: str) -> bool:
    return any(apostrophe in text for apostrophe in APOSTROPHES)
