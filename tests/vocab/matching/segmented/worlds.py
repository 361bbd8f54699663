"""Small random lists with dictionaries and tokenizers, and their texts written down once more, plainly and slowly."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tests.vocab.toys import STOP, toy_speller
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import EmptyWordListError
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.matching.text_states import State, TextStates
from vocab.options import ListOptions, Punctuation, Segmentation
from vocab.text.changes import ListChanges
from vocab.text.gaps.automaton import build_gap_automaton

ALPHABETS: Final = ("甲乙丙", "甲乙ab", "甲丁é")
"""Of three bytes, of which the first two may be the same; letters that are never cut apart; of two bytes."""

MARKS: Final = "，。“”"

PUNCTUATIONS: Final[tuple[Punctuation, ...]] = ("basic", "none", "standard")
SEGMENTATIONS: Final[tuple[Segmentation, ...]] = ("longest", "any")


class Place(NamedTuple):
    """Where a text is: the gap state before the open run, and what of that is not settled, in one way or several."""

    gap: int
    rests: frozenset[str] = frozenset()


@dataclass(frozen=True)
class World:
    """A dictionary, the listed words of it in order, changes and options, and the tokens of a tokenizer."""

    dictionary: tuple[str, ...]
    listed: tuple[str, ...]
    n_words: int
    tokens: tuple[bytes, ...]
    options: ListOptions
    extra_words: tuple[str, ...] = ()
    exclude_words: tuple[str, ...] = ()
    _alive: dict[Place, bool] = field(default_factory=dict, repr=False)
    _known_steps: dict[tuple[Place, str], Place | None] = field(default_factory=dict, repr=False)

    @cached_property
    def facts(self) -> TokenizerFacts:
        return TokenizerFacts.from_token_bytes([b"<stop>", *self.tokens], [STOP])

    @cached_property
    def states(self) -> SegmentedStates:
        return SegmentedStates(self.text(), self.n_words)

    def text(self, *, in_json: bool = False) -> SegmentedText:
        speller, word_list = toy_speller(self.facts), WordList("zh", self.listed, "file")
        words = build_segmented(word_list, speller, ReferenceWords(self.dictionary, "x"))
        changes = ListChanges(self.extra_words, self.exclude_words)
        overlay = build_segmented_overlay(words, changes, speller) if self.extra_words else None
        return SegmentedText(words, overlay, self.options, TokenTrie.of(self.facts), in_json=in_json)

    # The slow reference.

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset((*self.dictionary, *self.listed, *self._spelled(self.extra_words)))

    @cached_property
    def allowed(self) -> frozenset[str]:
        listed = frozenset(self._spelled(self.listed)[: self.n_words])
        return (listed - set(self.exclude_words)) | set(self._spelled(self.extra_words))

    def _spelled(self, words: Iterable[str]) -> list[str]:
        """The words that the tokenizer can spell, character by character."""
        speller = toy_speller(self.facts)
        return [word for word in words if None not in speller.spell(list(word))]

    @cached_property
    def _gaps(self) -> tuple[list[dict[str, int]], list[bool], list[bool], list[int], int]:
        gaps = build_gap_automaton(self.options, "zh")
        states = gaps.states
        after_word = [gaps.contexts[state.context].after_word for state in states]
        return (
            [dict(state.transitions) for state in states],
            [state.is_complete for state in states],
            [state.word_may_start for state in states],
            after_word,
            gaps.start,
        )

    @property
    def start(self) -> Place:
        return Place(self._gaps[4])

    @cached_property
    def marks(self) -> frozenset[str]:
        return frozenset(char for transitions in self._gaps[0] for char in transitions)

    @cached_property
    def _begun(self) -> frozenset[str]:
        words = self.allowed if self.options.segmentation == "any" else self.known
        return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))

    @cached_property
    def letters(self) -> frozenset[str]:
        return frozenset("".join(self.known))

    def words_of(self, run: str) -> list[str] | None:
        """The words of a run by the longest match; None where there is no word at a place, or letters are parted."""
        found: list[str] = []
        while run:
            word = next((run[:end] for end in range(len(run), 0, -1) if run[:end] in self.known), None)
            if word is None or (found and _parts_letters(found[-1], word)):
                return None
            found.append(word)
            run = run[len(word) :]
        return found

    def is_whole(self, place: Place) -> bool:
        """Whether the open run is whole words of the list."""
        if self.options.segmentation == "any":
            return any(rest in self.allowed for rest in place.rests)
        [rest] = place.rests
        words = self.words_of(rest)
        return words is not None and self.allowed.issuperset(words)

    def is_complete(self, place: Place) -> bool:
        gap = self._after_run(place)
        return gap is not None and self._gaps[1][gap]

    def _after_run(self, place: Place) -> int | None:
        if not place.rests:
            return place.gap
        return self._gaps[3][place.gap] if self.is_whole(place) else None

    def after(self, place: Place, char: str) -> Place | None:
        """Where a character leads; None for nowhere. What comes after it need not have an end."""
        if (place, char) not in self._known_steps:
            self._known_steps[place, char] = self._after(place, char)
        return self._known_steps[place, char]

    def _after(self, place: Place, char: str) -> Place | None:
        transitions, _, may_start, _, _ = self._gaps
        if char in self.marks:
            gap = self._after_run(place)
            return Place(transitions[gap][char]) if gap is not None and char in transitions[gap] else None
        if not may_start[place.gap]:
            return None
        rests = frozenset(self._longer(place.rests, char))
        return Place(place.gap, rests) if rests else None

    def _longer(self, rests: frozenset[str], char: str) -> Iterator[str]:
        if not rests and char in self._begun:
            yield char
        for rest in rests:
            if self.options.segmentation == "any":
                if rest + char in self._begun:
                    yield rest + char
                if rest in self.allowed and char in self._begun and not _parts_letters(rest, char):
                    yield char
            elif (settled := self._settled(rest + char)) is not None:
                yield settled

    def _settled(self, rest: str) -> str | None:
        """What is left of a rest when the words are cut off that nothing makes longer; None where one is not listed."""
        while rest and rest not in self._begun:
            word = next((rest[:end] for end in range(len(rest), 0, -1) if rest[:end] in self.known), None)
            if word is None or word not in self.allowed or _parts_letters(word, rest[len(word) :]):
                return None
            rest = rest[len(word) :]
        return rest

    def is_alive(self, place: Place) -> bool:
        """Whether a text can end after a place."""
        if place not in self._alive:
            seen, todo = {place}, [place]
            while todo and not any(self._alive.get(one, False) or self.is_complete(one) for one in todo):
                found = {self.after(one, char) for one in todo for char in (*self.letters, *self.marks)}
                todo = [one for one in found if one is not None and one not in seen and self._alive.get(one, True)]
                seen.update(todo)
            if todo:
                self._alive[place] = True
            else:
                self._alive.update(dict.fromkeys(seen, False))
        return self._alive[place]

    def places(self, text: bytes) -> Iterator[Place]:
        """Where a text may be that has perhaps the beginning of a character at its end: after each such character."""
        try:
            spelled, part = text.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                return
            spelled, part = text[: error.start].decode(), text[error.start :]
        place: Place | None = self.start
        for char in spelled:
            place = None if place is None else self.after(place, char)
        if place is None:
            return
        if not part:
            yield place
            return
        for char in (*self.letters, *self.marks):
            if char.encode().startswith(part) and (following := self.after(place, char)) is not None:
                yield following

    def allows(self, text: bytes) -> bool:
        return any(map(self.is_alive, self.places(text)))


def _parts_letters(before: str, after: str) -> bool:
    return (before[-1] + after[0]).isascii() and before[-1].isalpha() and after[0].isalpha()


def random_world(randomness: random.Random, *, lacking: int = 0, segmentation: Segmentation | None = None) -> World:
    """A world of a few letters; ``lacking`` single bytes of them are no tokens."""
    letters = randomness.choice(ALPHABETS)
    word_lengths = (1, 1, 2, 2, 3, 4)
    words = list(dict.fromkeys(_text(randomness, letters, word_lengths) for _ in range(randomness.randint(2, 9))))
    listed = words[: randomness.randint(1, len(words))]
    punctuation = randomness.choice(PUNCTUATIONS)
    options = ListOptions(
        segmentation=randomness.choice(SEGMENTATIONS if segmentation is None else (segmentation,)),
        end="word" if punctuation == "none" else randomness.choice(("word", "sentence")),
        punctuation=punctuation,
    )
    extra, excluded = tuple[str, ...](), tuple[str, ...]()
    if randomness.random() < 0.4:
        extra = tuple({_text(randomness, letters, (1, 2, 3)) for _ in range(2)})
        excluded = tuple(word for word in randomness.sample(listed, 1) if word not in extra)
    return World(
        tuple(words),
        tuple(listed),
        randomness.randint(1, len(listed)),
        tuple(_tokens(randomness, letters, lacking)),
        options,
        extra,
        excluded,
    )


def worlds(
    num: int, *, first: int = 0, lacking: int = 0, segmentation: Segmentation | None = None
) -> Iterator[tuple[World, random.Random]]:
    """Random worlds that have texts, each with the source that made it."""
    for seed in range(first, first + num):
        randomness = random.Random(seed)
        world = random_world(randomness, lacking=lacking, segmentation=segmentation)
        try:
            fewest = world.states.fewest_tokens()
        except EmptyWordListError:
            continue
        if fewest is not None:
            yield world, randomness


def _text(randomness: random.Random, letters: str, lengths: Iterable[int]) -> str:
    return "".join(randomness.choice(letters) for _ in range(randomness.choice(tuple(lengths))))


def _tokens(randomness: random.Random, letters: str, lacking: int) -> list[bytes]:
    """Single bytes, and longer tokens that begin or end inside of characters."""
    used = sorted(set((letters + MARKS).encode()))
    left_out = randomness.sample(used, lacking)
    pieces = set[bytes]()
    for _ in range(randomness.randint(5, 40)):
        spelled = _text(randomness, letters + MARKS, (1, 2, 3, 4)).encode()
        first = randomness.randint(0, min(2, len(spelled) - 1))
        pieces.add(spelled[first : randomness.randint(first + 1, len(spelled))])
    singles = {bytes([byte]) for byte in range(256) if byte not in left_out}
    return [*sorted(singles), *sorted(piece for piece in pieces if len(piece) > 1)]


def mask_of(states: TextStates, state: State, num_tokens: int, budget: int = NO_BUDGET) -> set[int]:
    """The tokens of a mask, without the stop token."""
    out = np.zeros((num_tokens + 31) // 32, dtype=np.int32)
    states.fill(out, state, budget)
    return {token for token in range(num_tokens) if out[token >> 5] >> np.int32(token & 31) & 1}
