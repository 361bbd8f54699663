"""What stands between words, as a machine over tokens without letters: one per set of options, made in 2 to 70 ms.

It is the gap automaton (``vocab.text.gaps``) over the bytes of such tokens, with the marks at the edges of entries. A
state has edges by token, and *ways* to the roots of the words (``vocab.automaton.compiled_list``). What stands between
words may be cut into tokens in any way: only words are held to their tokenizer's spelling.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from vocab.arrays.interner import Interner
from vocab.arrays.kernels import Int32Array, Uint8Array, group_starts
from vocab.automaton.compiled_list import (
    ELISION,
    NO_KIND,
    POSSESSABLE,
    POSSESSIVE,
    WORD,
    CompiledList,
    Root,
    TrieArrays,
)
from vocab.automaton.frame_tokens import FrameTokens, run_tokens
from vocab.automaton.trie_builder import MAX_ROOTS, TOO_MANY_RUNS
from vocab.errors import ListTooLargeError
from vocab.marks import APOSTROPHES, BLANK, LINE_BREAK
from vocab.options import Case, ListOptions
from vocab.text.forms import case_of, decide_possessive
from vocab.text.gaps.automaton import GapAutomaton, build_gap_automaton

CAPITAL, SENTENCE = 1, 2
"""Bits of a mode: a listed word may have a capital; a sentence starts, where an added word may have one."""
NUM_MODES: Final = 4

MAX_STATES: Final = 1 << 13
"""1 s and 100 MB to make, in the compile process and in each engine. Every run of marks with which entries begin or end
adds some: a list with none has up to 1,700, one with 28 ("Mr.", "C++", "(a)", "20€") up to 4,800."""

MAX_ITEMS: Final = 4 * MAX_STATES
"""What may have been read, in all states together: as many as there are states, unless hundreds of entries begin with
long runs of marks that are alike. Then each state stands for all of them, and 8,192 took 10 s. With 28 runs, 1,600."""

_JSON_QUOTE: Final = '"'
_ESCAPED: Final = (_JSON_QUOTE, LINE_BREAK)
"""What cannot stand in a JSON string as it is."""

_DEAD: Final = -1


class Way(NamedTuple):
    """A way from a frame state into words.

    Attributes:
        root: Index of the root.
        is_after_blank: The blank was a token of its own, so the words begin at the root's child by that token.
        context: Index of what holds for these words.
    """

    root: int
    is_after_blank: bool
    context: int


@dataclass(frozen=True)
class Frame:
    """The states of a text between words, with edges by token; state 0 is the start of a text.

    Attributes:
        edge_start: int32 (states + 1,), where a state's edges begin in the next two.
        tokens: int32, ascending within a state.
        targets: int32, states.
        ways: The ways of each state into words.
        is_complete: uint8 (states,), whether a text may end there.
        modes: int32 (contexts,), bits of ``CAPITAL`` and ``SENTENCE``: which capitals a word may have, what it starts.
        after: int32 (contexts, 3), the state after a word, by its kind.
        blank: The token of a lone blank; -1 for none.
        places: int32 (states of the gap automaton,), the state where a text goes on at each of them; empty unless
            asked for.
    """

    edge_start: Int32Array
    tokens: Int32Array
    targets: Int32Array
    ways: tuple[tuple[Way, ...], ...]
    is_complete: Uint8Array
    modes: Int32Array
    after: Int32Array
    blank: int
    places: Int32Array

    @property
    def num_states(self) -> int:
        return len(self.is_complete)


def frame_for(
    words: CompiledList,
    overlay: TrieArrays | None,
    options: ListOptions,
    tokens: FrameTokens,
    *,
    has_places: bool = False,
    in_json: bool = False,
) -> Frame:
    """Build the frame of a list with its changes; with places for texts after others, or for JSON strings, if asked."""
    roots = tuple((words if overlay is None else overlay).roots)
    case = case_of(options, has_capitals=words.has_capitals)
    options = decide_possessive(options, words.language, words.listed.source)
    return build_frame(options, case, words.language, roots, tokens, has_places=has_places, in_json=in_json)


def build_frame(
    options: ListOptions,
    case: Case,
    language: str,
    roots: Sequence[Root],
    tokens: FrameTokens,
    *,
    has_places: bool = False,
    in_json: bool = False,
) -> Frame:
    """Build the frame for words with these roots; ``case`` is resolved, that of ``options`` is ignored.

    ``options.possessive`` is decided (``decide_possessive``).

    ``has_places`` adds states, after all others, for texts that go on after a text that is not known. Not for every
    text: at some of them no word of a list may stand, and where a state leads nowhere masks take longer.

    ``in_json`` is for the text of a JSON string: it begins with the string's quotation mark and is complete before the
    closing one, quotation marks within are escaped, no blank comes first and no line breaks.

    Raises:
        ListTooLargeError: It has more than ``MAX_STATES`` or ``MAX_ITEMS``, or words have more than ``MAX_ROOTS``.
    """
    builder = _Builder(build_gap_automaton(options, language), case, roots, tokens, in_json=in_json)
    return builder.build(has_places=has_places)


class _Gap(NamedTuple):
    """At a state of the gap automaton, perhaps right after a blank, or after the tail of an entry."""

    state: int
    is_after_blank: bool = False
    is_after_tail: bool = False


@dataclass(frozen=True, slots=True)
class _Head:
    """Inside the head of entries, which began at a state of the gap automaton."""

    root: int
    state: int
    num_read: int


@dataclass(frozen=True, slots=True)
class _Tail:
    """Inside the tail of entries, with the context of the gap automaton that holds after them."""

    root: int
    context: int
    num_read: int


@dataclass(frozen=True, slots=True)
class _Quote:
    """Before the quotation mark with which a JSON string begins."""


_Item: TypeAlias = _Gap | _Head | _Tail | _Quote
_Items: TypeAlias = tuple[int, ...]
"""What may have been read: numbers of items, ascending."""


class _Inside(NamedTuple):
    """Inside a character: the bytes that may end it, and the state after each."""

    ends: tuple[tuple[bytes, int], ...]


class _Builder:
    """Build a frame from a gap automaton, the roots of words and the tokens without letters."""

    def __init__(
        self, gaps: GapAutomaton, case: Case, roots: Sequence[Root], tokens: FrameTokens, *, in_json: bool = False
    ) -> None:
        self._gaps = gaps
        self._in_json = in_json
        self._case = case
        self._roots = roots
        has_possessives = any(ends.after_possessable != ends.after_word for ends in gaps.contexts)
        used = [(index, root) for index, root in enumerate(roots) if has_possessives or not root.is_possessive]
        self._headed = [(index, root.head[0]) for index, root in used if root.head]
        # Indices of all others, by what decides where their words begin.
        self._headless: dict[tuple[str, bool], list[int]] = {}
        for index, root in used:
            if not root.head:
                self._headless.setdefault((root.lead, root.is_elided), []).append(index)
        self._tokens = tokens
        self._items: Interner[_Item] = Interner()
        self._states: Interner[_Items | _Inside] = Interner()
        self._contexts: Interner[tuple[int, int, int, int]] = Interner()
        self._context_of: dict[tuple[int, int, int, int], int] = {}
        self._places: list[int] = []

    def build(self, *, has_places: bool) -> Frame:
        """Build the frame: its states, their edges by token, the ways into words, and contexts."""
        self._state([_Quote() if self._in_json else _Gap(self._gaps.start)])
        bytes_read: list[tuple[int, int, int]] = []
        ways: list[tuple[Way, ...]] = []
        # There are some hundred different ones, and 90,000 in the frame of a list with many runs of marks.
        known_ways: dict[Way, Way] = {}
        complete: list[bool] = []
        for state, read in enumerate(self._iterate_states(has_places=has_places)):
            if len(self._states) > MAX_STATES or len(self._items) > MAX_ITEMS or len(self._roots) > MAX_ROOTS:
                raise ListTooLargeError(TOO_MANY_RUNS)
            items: list[_Item] = []
            moves: dict[str, list[_Item]] = {}
            if isinstance(read, _Inside):
                ends = read.ends
            else:
                items = [self._items.in_order[number] for number in read]
                moves = self._moves(items)
                ends = tuple((self._spell(char, items), self._state(targets)) for char, targets in moves.items())
            bytes_read += ((state, byte, target) for byte, target in self._first_bytes(ends))
            ways.append(tuple(known_ways.setdefault(way, way) for way in dict.fromkeys(self._ways(items, moves))))
            complete.append(any(isinstance(i, _Gap) and self._gaps.states[i.state].is_complete for i in items))
        table = np.full((len(ways), 256), _DEAD, dtype=np.int32)
        sources, labels, targets = np.asarray(bytes_read, dtype=np.int32).reshape(-1, 3).T
        table[sources, labels] = targets
        contexts = np.asarray(self._contexts.in_order, dtype=np.int32).reshape(-1, 4)
        edges = self._edges(table)
        return Frame(
            edge_start=group_starts(edges[0], len(table)),
            tokens=edges[1],
            targets=edges[2],
            ways=tuple(ways),
            is_complete=np.asarray(complete, dtype=np.uint8),
            modes=contexts[:, 0].copy(),
            after=contexts[:, 1:].copy(),
            blank=self._tokens.blank,
            places=np.asarray(self._places, dtype=np.int32),
        )

    def _iterate_states(self, *, has_places: bool) -> Iterator[_Items | _Inside]:
        """Yield frame states while the next are added; with ``has_places``, then those that begin at any gap state."""
        number = 0
        for is_last in (False, True) if has_places else (True,):
            while number < len(self._states):
                yield self._states.in_order[number]
                number += 1
            if not is_last:
                # A blank before them is not known as a token, so words stand bare after it.
                self._places = [self._state([_Gap(place)]) for place in range(len(self._gaps.states))]

    def _state(self, items: Iterable[_Item]) -> int:
        """Return the number of the frame state with these items, added if it is new."""
        return self._states[tuple(sorted({self._items[item] for item in items}))]

    def _first_bytes(self, ends: Iterable[tuple[bytes, int]]) -> Iterator[tuple[int, int]]:
        """Split characters into bytes: yield their first bytes, each with the frame state after it."""
        inside: dict[int, list[tuple[bytes, int]]] = {}
        for spelled, target in ends:
            if len(spelled) == 1:
                yield spelled[0], target
            else:
                inside.setdefault(spelled[0], []).append((spelled[1:], target))
        for byte, rest in inside.items():
            # Many states share one: it depends only on what may follow.
            yield byte, self._states[_Inside(tuple(rest))]

    def _moves(self, items: Iterable[_Item]) -> dict[str, list[_Item]]:
        """Return, by next character, the items that may have been read after it."""
        moves: dict[str, list[_Item]] = {}
        for item in items:
            for character, target in self._moves_of(item):
                moves.setdefault(character, []).append(target)
        return moves

    def _spell(self, character: str, items: list[_Item]) -> bytes:
        """Return the bytes of a character that follows these items; a quotation mark in a JSON string is escaped."""
        is_escaped = self._in_json and character == _JSON_QUOTE and not isinstance(items[0], _Quote)
        return b"\\" * is_escaped + character.encode()

    def _moves_of(self, item: _Item) -> Iterator[tuple[str, _Item]]:
        """Yield the characters that may follow an item, each with the item after it."""
        if isinstance(item, _Quote):
            yield _JSON_QUOTE, _Gap(self._gaps.start)
        elif isinstance(item, _Gap):
            state = self._gaps.states[item.state]
            for character, target in state.transitions.items():
                if self._in_json and (
                    character == LINE_BREAK or (character == BLANK and item.state == self._gaps.start)
                ):
                    continue
                # The possessive is spelled from its root, but after a mark they may share a token ("Mr.'s").
                if item.is_after_tail or character not in APOSTROPHES or not self._is_possessable(item.state):
                    yield character, _Gap(target, character == BLANK)
            if state.word_may_start and not state.is_after_elision:
                for index, mark in self._headed:
                    yield mark, _Head(index, item.state, 1)
        elif isinstance(item, _Head):
            head = self._roots[item.root].head
            if item.num_read < len(head):
                yield head[item.num_read], replace(item, num_read=item.num_read + 1)
        else:
            root = self._roots[item.root]
            done = item.num_read + 1 == len(root.tail)
            after_tail = _Gap(self._after(item.context, root.kind), is_after_tail=True)
            yield root.tail[item.num_read], after_tail if done else replace(item, num_read=item.num_read + 1)

    def _ways(self, items: Sequence[_Item], moves: dict[str, list[_Item]]) -> Iterator[Way]:
        """Yield the ways into words from a frame state, given its items and their moves."""
        for item in items:
            if isinstance(item, _Head) and item.num_read == len(self._roots[item.root].head):
                yield Way(item.root, False, self._context(item.state, item.root))
        gaps = [item for item in items if isinstance(item, _Gap)]
        is_after_blank = any(gap.is_after_blank for gap in gaps)
        # What a JSON string has in it is escaped, so only its own quotation mark is one token with a word.
        is_escaped = self._in_json and bool(gaps)
        for (lead, is_elided), indices in self._headless.items():
            if lead == POSSESSIVE.lead:
                starts = [gap.state for gap in gaps if self._is_possessable(gap.state)]
            elif is_escaped and lead in _ESCAPED:
                starts = []
            elif is_after_blank:
                starts = self._starts(is_elided, gaps) if lead == BLANK else []
            else:
                starts = self._starts(is_elided, moves.get(lead, []) if lead else gaps)
            for state in starts:
                for index in indices:
                    yield Way(index, is_after_blank and lead == BLANK, self._context(state, index))

    def _starts(self, is_elided: bool, items: Iterable[_Item]) -> list[int]:
        """Return the gap states of these items where words without a head may begin: after an elision, or elsewhere."""
        reached = [(item.state, self._gaps.states[item.state]) for item in items if isinstance(item, _Gap)]
        return [number for number, state in reached if state.word_may_start and state.is_after_elision == is_elided]

    def _context(self, state: int, index: int) -> int:
        """Return the number of the context of a root's words that begin at a gap state, added if it is new."""
        root, mode, context = self._roots[index], self._mode(state), self._gaps.states[state].context
        key = mode, context, index if root.tail else -1, root.kind
        if key not in self._context_of:
            word, possessable, elision = (
                self._state([self._item_after(index, kind, context)]) for kind in (WORD, POSSESSABLE, ELISION)
            )
            self._context_of[key] = self._contexts[mode, word, possessable, elision]
        return self._context_of[key]

    def _item_after(self, index: int, kind: int, context: int) -> _Item:
        """Return the item after a word: inside its root's tail, or in the gap."""
        root = self._roots[index]
        if root.tail:
            return _Tail(index, context, 0)
        return _Gap(self._after(context, kind if root.kind == NO_KIND else root.kind))

    def _after(self, context: int, kind: int) -> int:
        """Return the gap state after a word of one kind, in a context of the gap automaton."""
        ends = self._gaps.contexts[context]
        return {WORD: ends.after_word, POSSESSABLE: ends.after_possessable, ELISION: ends.after_elision}[kind]

    def _is_possessable(self, state: int) -> bool:
        """Return whether a gap state is the one after a word that an English 's may follow."""
        ends = self._gaps.contexts[self._gaps.states[state].context]
        # Where there is no possessive, the two are one.
        return state == ends.after_possessable != ends.after_word

    def _mode(self, state: int) -> int:
        """Return the mode (bits ``CAPITAL`` and ``SENTENCE``) of words that begin at a gap state."""
        starts = self._gaps.states[state].starts_sentence
        capital = self._case == "any" or (self._case == "sentence" and starts)
        return CAPITAL * capital | SENTENCE * starts

    def _edges(self, table: Int32Array) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Run all tokens from every state; return source, token and target of the runs that reach a state."""
        spelled, lengths = self._tokens.spelled, self._tokens.lengths
        is_known: npt.NDArray[np.bool_] = np.any(table >= 0, axis=0)
        is_padding = np.arange(spelled.shape[1]) >= lengths[:, None]
        is_used: npt.NDArray[np.bool_] = np.all(is_known[spelled] | is_padding, axis=1)
        used = np.flatnonzero(is_used)
        reached = run_tokens(table, spelled[used], lengths[used])
        sources, columns = np.nonzero(reached >= 0)
        return sources.astype(np.int32), self._tokens.ids[used[columns]], reached[sources, columns]
