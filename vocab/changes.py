"""A request's own small changes to a list: words added to it and words left out.

They need no compile of the list. Knows which entries of a list a word to leave out means; knows nothing of tokens.
"""

from dataclasses import dataclass
from typing import Final

from vocab.errors import OptionsError
from vocab.forms import Capitals
from vocab.marks import APOSTROPHES
from vocab.wordlists import WordList


@dataclass(frozen=True, slots=True)
class ListChanges:
    """Words added to a list and words left out.

    Attributes:
        extra_words: NFC, without duplicates; allowed whatever N, as written and with a capital where a sentence starts.
        exclude_words: NFC, without duplicates; what the list has of them is treated as if it were not in the list,
            while the ranks of all other words stay.
    """

    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.extra_words or self.exclude_words)

    def check(self, language: str) -> None:
        """Refuses changes that contradict one another.

        Raises:
            OptionsError: A word is both added and left out.
        """
        left_out = {folded(word, language) for word in self.exclude_words}
        for word in self.extra_words:
            if folded(word, language) in left_out:
                raise OptionsError(
                    f"{word[:80]!r} is in both extra_words and exclude_words: take it out of one of them."
                )


NO_CHANGES: Final = ListChanges()


def folded(word: str, language: str) -> str:
    """What a word and its other spellings have in common: without regard to capitals and to the kind of apostrophe."""
    typewriter, curly = APOSTROPHES
    # The capital first: Turkish "ılık" and "ilik" have different ones, but one casefold.
    return (Capitals(language).of(word) or word).replace(curly, typewriter).casefold()


def entries_left_out(word_list: WordList, exclude_words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the list that ``exclude_words`` means, in rank order.

    A word means all entries that differ from it in capitals or the kind of apostrophe only; where words share a rank
    (``unit: lemma``), all words of the same rank.
    """
    left_out = {folded(word, word_list.language) for word in exclude_words}
    if not left_out:
        return ()
    lengths = {len(word) for word in left_out}
    # Folding changes the length of a few words only ("ß", "İ"); comparing it first saves folding the whole list.
    near = {length + more for length in lengths for more in (-2, -1, 0, 1, 2)}
    ranks = {
        rank for rank, word in word_list.ranked() if len(word) in near and folded(word, word_list.language) in left_out
    }
    return tuple(word for rank, word in word_list.ranked() if rank in ranks)
