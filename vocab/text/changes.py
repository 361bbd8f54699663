"""A request's own small changes to a list, words added and words left out, which need no compile of the list."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, NamedTuple

from vocab.errors import OptionsError
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.forms import POSSESSIVE_LANGUAGES, Capitals, fold_case


@dataclass(frozen=True, slots=True)
class ListChanges:
    """Words added to a list and words left out, NFC, without duplicates.

    Attributes:
        extra_words: Allowed whatever N, as written and with a capital where a sentence starts.
        exclude_words: Treated as if they were not in the list; the ranks of all other words stay.
    """

    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.extra_words or self.exclude_words)

    def check(self, language: str) -> None:
        """Raise ``OptionsError`` when a word is both added and left out."""
        left_out = {fold(word, language) for word in self.exclude_words}
        for word in self.extra_words:
            if fold(word, language) in left_out:
                raise OptionsError(
                    f"{word[:80]!r} is in both extra_words and exclude_words: take it out of one of them."
                )


NO_CHANGES: Final = ListChanges()


class PromptWord(NamedTuple):
    """A word that a prompt allows: as the language's list has it, its rank there, and the other forms allowed."""

    word: str
    rank: int
    forms: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"word": self.word, "rank": self.rank, "forms": list(self.forms)}


def words_and_forms(found: Sequence[PromptWord]) -> tuple[str, ...]:
    """Return all that a prompt's words allow, for ``extra_words``."""
    return tuple(written for one in found for written in (one.word, *one.forms))


def fold(word: str, language: str) -> str:
    """Return a key that is equal for spellings that differ only in capitals or the kind of apostrophe."""
    typewriter, curly = APOSTROPHES
    # The capital first: Turkish "ılık" and "ilik" have different ones, but one casefold.
    capitalised = (Capitals(language).of(word) or word).replace(curly, typewriter)
    return "".join(map(_small, capitalised))


def _small(char: str) -> str:
    # Character by character: German "Maße" and "Masse" are different words, though "MASSE" may stand for both.
    small = char.casefold()
    return small if len(small) == 1 else char.lower()


def entries_left_out(word_list: WordList, exclude_words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of the list that ``exclude_words`` means, in rank order.

    A word means all entries with the same ``fold`` key; in English also those with 's ("it's" of "it"); where words
    share a rank (``unit: lemma``), all words of the same rank.
    """
    left_out = ranks_left_out(word_list, exclude_words)
    return tuple(word for rank, word in word_list.ranked() if rank in left_out)


def ranks_left_out(word_list: WordList, exclude_words: tuple[str, ...]) -> frozenset[int]:
    """Return the ranks of the words that ``exclude_words`` means (``entries_left_out``); no other words have them."""
    if not exclude_words:
        return frozenset()
    typewriter, _ = APOSTROPHES
    meant = set(exclude_words)
    if word_list.language in POSSESSIVE_LANGUAGES:
        meant |= {f"{word}{typewriter}{POSSESSIVE_LETTER}" for word in exclude_words}
    return frozenset(rank for rank, _ in entries_spelled_like(word_list, meant))


def entries_spelled_like(word_list: WordList, words: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield rank and word of the entries with the same ``fold`` key as one of ``words``, in rank order."""
    language = word_list.language
    keys = {fold(word, language) for word in words}
    likely = {_roughly_folded(word) for word in words}
    # The whole list in one go, and word by word only what may be meant: 7 ms, not 120, for 50,000 words.
    are_likely = map(likely.__contains__, _roughly_folded("\n".join(word_list.words)).split("\n"))
    return ((rank, word) for rank, word in compress(word_list.ranked(), are_likely) if fold(word, language) in keys)


def _roughly_folded(text: str) -> str:
    """Fold a whole text quickly: equal wherever ``fold`` is, and rarely elsewhere."""
    return fold_case(text).replace("ı", "i").replace("\u0307", "")
