"""What an author asks of a text beyond its list: new words, words that must occur, and limits of sentences."""

from dataclasses import dataclass
from typing import Final, NamedTuple

UNLIMITED: Final = 2**31 - 1

REST_WORDS: Final = 30
"""A required word that came often enough rests for so many words: what makes it likely to come at all stays."""


@dataclass(frozen=True, slots=True)
class NewWords:
    """Limits of words from beyond the list; one that came once may come again at any time.

    Attributes:
        n_words: They are among so many of the list's first words.
        spacing: From one new word to the next there are so many words, so that 100 words have ``100 / spacing``.
        max_words: Different ones at most.
    """

    n_words: int
    spacing: int
    max_words: int = UNLIMITED

    @staticmethod
    def spacing_of(per_100: float) -> int:
        """Return the spacing that leaves at most ``per_100`` new words in any 100 words in a row."""
        return max(1, -int(-100 // per_100))


@dataclass(frozen=True, slots=True)
class RequiredWord:
    """A word that must occur ``count`` times: any form of any of these ranks."""

    ranks: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of one request.

    Attributes:
        new_words: None for none.
        must_use: In no order.
        max_sentence_words: Words of a sentence at most.
        min_sentences: The text does not end before, unless nothing else may come.
        max_sentences: The text ends with it.
        num_tokens: The request's budget, over which required words are spread.
    """

    new_words: NewWords | None = None
    must_use: tuple[RequiredWord, ...] = ()
    max_sentence_words: int = UNLIMITED
    min_sentences: int = 0
    max_sentences: int = UNLIMITED
    num_tokens: int = UNLIMITED

    def __bool__(self) -> bool:
        return self != Controls(num_tokens=self.num_tokens)


class Progress(NamedTuple):
    """What the controls count of a text so far.

    Attributes:
        since_new: Words since the last new one, no more than the spacing.
        num_words: Of the open sentence.
        num_sentences: Begun.
        used: Of each required word, how often it came.
        rests: Of each, words since it came, no more than ``REST_WORDS``.
        introduced: Ranks of the new words.
    """

    since_new: int
    num_words: int
    num_sentences: int
    used: tuple[int, ...]
    rests: tuple[int, ...]
    introduced: tuple[int, ...] = ()

    def pack(self, readings: tuple[int, ...]) -> tuple[int, ...]:
        """Join progress and readings into one state."""
        header = (self.since_new, self.num_words, self.num_sentences, *self.used, *self.rests, *self.introduced)
        return (len(header) + 1, *header, *readings)

    @classmethod
    def unpack(cls, state: tuple[int, ...], num_required: int) -> tuple["Progress", tuple[int, ...]]:
        """Split a state into its progress, with so many required words, and its readings."""
        length, end_of_used, end_of_rests = state[0], 4 + num_required, 4 + 2 * num_required
        used, rests, introduced = state[4:end_of_used], state[end_of_used:end_of_rests], state[end_of_rests:length]
        since_new, num_words, num_sentences = state[1:4]
        return cls(since_new, num_words, num_sentences, used, rests, introduced), state[length:]
