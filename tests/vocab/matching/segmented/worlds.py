"""Small worlds of text without spaces: a dictionary, a list, tokens that cut characters, and a slow reference."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.lists.wordlists import WordList
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.gaps.automaton import build_gap_automaton

_MARKS: Final = "，。（）"
"""Of tokens."""

_LETTERS: Final = ("甲乙丙", "甲乙ab", "甲丁é")
_LONGEST: Final = 4


def _is_latin(char: str) -> bool:
    return char.isascii() and char.isalpha()


@dataclass
class World:
    """A random list; ``n_words`` of it count, and ``extra`` besides, less ``excluded``."""

    letters: str
    dictionary: list[str]
    listed: list[str]
    tokens: list[bytes]
    options: ListOptions
    n_words: int
    extra: tuple[str, ...]
    excluded: tuple[str, ...]
    _known: dict[tuple[int, str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._gaps = build_gap_automaton(self.options, "zh")
        self._marks = {char for state in self._gaps.states for char in state.transitions}
        self._words = {*self.dictionary, *self.extra}
        self._allowed = {*self.listed[: self.n_words], *self.extra} - set(self.excluded)

    @classmethod
    def of(cls, seed: int, **given: str) -> "World":
        """Draw a world; ``given`` are options that are not drawn."""
        rng = random.Random(seed)
        letters = rng.choice(_LETTERS)
        words = list({_word(rng, letters) for _ in range(rng.randint(2, 9))})
        rng.shuffle(words)
        listed = words[: rng.randint(1, len(words))]
        pieces = {char.encode() for char in letters}
        for _ in range(rng.randint(5, 40)):
            text = "".join(rng.choice(letters + _MARKS) for _ in range(rng.randint(1, 4))).encode()
            start = rng.randint(0, min(2, len(text) - 1))
            pieces.add(text[start : rng.randint(start + 1, len(text))])
        tokens = [bytes([byte]) for byte in range(256)]
        tokens += sorted(piece for piece in pieces if len(piece) > 1)
        drawn = {
            "punctuation": rng.choice(("basic", "none", "standard")),
            "segmentation": rng.choice(("longest", "any")),
            "end": rng.choice(("word", "sentence")),
            **given,
        }
        if drawn["punctuation"] == "none":
            drawn["end"] = "word"
        extra = {_word(rng, letters)[:3] for _ in range(2)} if rng.random() < 0.4 else set()
        excluded = {rng.choice(listed)} - extra if extra else set()
        options = ListOptions(**drawn)  # type: ignore[arg-type]
        n_words = rng.randint(1, len(listed))
        return cls(letters, words, listed, tokens, options, n_words, tuple(sorted(extra)), tuple(excluded))

    def states(self, *, lacking: frozenset[int] = frozenset()) -> tuple[SegmentedStates, TokenizerFacts]:
        """Build the states, for a tokenizer without the single bytes ``lacking``; it has all letters whole."""
        tokens = [b"" if len(token) == 1 and token[0] in lacking else token for token in self.tokens]
        facts = TokenizerFacts.from_token_bytes([*tokens, b""])
        number = {token: i for i, token in enumerate(tokens) if token}

        def encode(texts: list[str]) -> list[list[int]]:
            return [[number[char.encode()] for char in text] for text in texts]

        speller = Speller(encode, facts, "bytes")  # type: ignore[arg-type]
        listed = WordList("zh", tuple(self.listed), "file")
        words = build_segmented(listed, speller, ReferenceWords(tuple(self.dictionary), ""))
        changes = ListChanges(self.extra, self.excluded)
        overlay = build_segmented_overlay(words, changes, speller) if changes else None
        return SegmentedStates(SegmentedText(words, overlay, self.options, TokenTrie.of(facts)), self.n_words), facts

    def is_text(self, text: str) -> bool:
        """Return whether a text is complete."""
        place = self._read(text)
        return place is not None and self._is_end(*place)

    def goes_on(self, spelled: bytes) -> bool:
        """Return whether bytes begin a text, which may end within a character."""
        try:
            return self._leads_to_end(spelled.decode())
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                return False
            head, part = spelled[: error.start].decode(), spelled[error.start :]
        chars = (char for char in (*self.letters, *self._marks) if char.encode().startswith(part))
        return any(self._leads_to_end(head + char) for char in chars)

    def _leads_to_end(self, text: str) -> bool:
        start = self._read(text)
        if start is None:
            return False
        if start not in self._known:
            self._known[start] = any(self._is_end(*place) for place in self._places_after(start))
        return self._known[start]

    def _places_after(self, start: tuple[int, str]) -> Iterator[tuple[int, str]]:
        seen, todo = {start}, [start]
        while todo:
            place = todo.pop()
            yield place
            for char in (*self.letters, *self._marks):
                after = self._move(*place, char)
                if after is not None and after not in seen and len(after[1]) <= len(start[1]) + _LONGEST:
                    seen.add(after)
                    todo.append(after)

    def _read(self, text: str) -> tuple[int, str] | None:
        place: tuple[int, str] | None = self._gaps.start, ""
        for char in text:
            place = None if place is None else self._move(*place, char)
        return place

    def _move(self, gap: int, run: str, char: str) -> tuple[int, str] | None:
        states = self._gaps.states
        if char not in self._marks:
            return (gap, run + char) if states[gap].word_may_start else None
        if run:
            if not self._is_whole(run):
                return None
            gap = self._gaps.contexts[states[gap].context].after_word
        target = states[gap].transitions.get(char)
        return None if target is None else (target, "")

    def _is_end(self, gap: int, run: str) -> bool:
        if run:
            if not self._is_whole(run):
                return False
            gap = self._gaps.contexts[self._gaps.states[gap].context].after_word
        return self._gaps.states[gap].is_complete

    def _is_whole(self, run: str) -> bool:
        if self.options.segmentation == "longest":
            return self._is_cut_by_longest(run)
        ends = {0}
        for start in range(len(run)):
            if start in ends and not (start and _is_latin(run[start - 1]) and _is_latin(run[start])):
                ends |= {end for end in range(start + 1, len(run) + 1) if run[start:end] in self._allowed}
        return len(run) in ends

    def _is_cut_by_longest(self, run: str) -> bool:
        start = 0
        while start < len(run):
            word = next((run[start:end] for end in range(len(run), start, -1) if run[start:end] in self._words), "")
            if word not in self._allowed or (start and _is_latin(run[start - 1]) and _is_latin(run[start])):
                return False
            start += len(word)
        return True


def _word(rng: random.Random, letters: str) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.choice((1, 1, 2, 2, 3, _LONGEST))))
