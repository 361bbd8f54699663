"""The compiled search for the words of a text: those that begin at a position, walked along tries by their characters.

The words of the list, those that a request adds and, of a language without spaces, those of its dictionary are walked
along at once, by the rules of ``vocab.text.table``.
"""

import string
from typing import Any, Final

import numpy as np

from vocab import marks
from vocab.arrays.kernels import (
    Int32Array,
    Uint8Array,
    inlined,
    int32_at,
    position_of,
    record_at,
    short_kernel,
    uint8_at,
)
from vocab.text.table import FOLLOWS_ELISION, MELTED_ROOT, MELTS, NO_RANK, PLAIN_ROOT, POSSESSABLE, TrieRecord

_ANYWHERE, _SENTENCES, _NOWHERE = 0, 1, 2
CAPITALS: Final = {"any": _ANYWHERE, "sentence": _SENTENCES, "listed": _NOWHERE}
"""Where a word may have a capital that it is not listed with."""

WORD_MAY_START, STARTS_SENTENCE, AFTER_ELISION, IS_COMPLETE, ENDS_UNIT, INSIDE_UNIT = 1, 2, 4, 8, 16, 32
"""What holds of a gap state (``vocab.text.gaps.automaton.GapState``)."""

ReaderRecord: Final = np.dtype(
    [
        (field, np.int64)
        for field in (
            *("words", "added", "reference", "added_numbers", "n_words", "left_out", "num_left_out"),
            *("capitals", "added_capitals", "gap_start", "gap_labels", "gap_targets", "gap_flags"),
            *("after_word", "after_elision", "classes", "num_classes"),
            *("is_unspaced", "is_longest", "has_possessives", "has_elisions", "has_numbers", "may_end"),
        )
    ]
)
"""A reader for compiled code. The addresses of three ``TrieRecord``: the list's, of added words and of the dictionary,
0 for none; the numbers of the added words; N, and the ranks left out, ascending. Where words of the first two tries
take capitals; the arrays of the gap automaton; the classes of characters. What the language and the options are, and
which flags a gap state has one of where texts may end."""

reader_at: Final = record_at(ReaderRecord)
_trie_at: Final = record_at(TrieRecord)

NEVER_IN_WORDS, APOSTROPHE, DIGIT, JOINT, LETTER = 1, 2, 4, 8, 16


def _classes() -> Uint8Array:
    members = (
        # Ends a word, unless a listed entry has it inside. Hyphen and apostrophes do not.
        (NEVER_IN_WORDS, marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.OPEN_MARKS),
        (APOSTROPHE, marks.APOSTROPHES),
        (DIGIT, marks.DIGITS),
        (JOINT, marks.NUMBER_JOINTS),
        (LETTER, string.ascii_letters),
    )
    found = np.zeros(max(ord(char) for _, chars in members for char in chars) + 1, dtype=np.uint8)
    for flag, chars in members:
        found[[ord(char) for char in chars]] |= flag
    return found


CLASSES: Final = _classes()
"""uint8, by code point: what a character is; those beyond are nothing of it."""

MAX_WALKS: Final = 32
"""At once: four tries and roots, and the few small letters that one capital has."""

_Record = Any


@short_kernel
def breaks_off(reader_address: int, text: Int32Array) -> bool:
    """Return whether a run, cut by the longest match, ends inside a word that is none so far."""
    reader = reader_at(reader_address)
    walks, position = np.empty((MAX_WALKS, 3), np.int32), 0
    while position < len(text):
        num = _start(reader, text[position], walks, _NOWHERE, _NOWHERE)
        end, at, goes_on = position, position + 1, False
        while num > 0:
            if _is_terminal(reader, walks, num):
                end = at
            if at == len(text):
                goes_on = _has_child(reader, walks, num)
                break
            num = _advance(reader, text[at], walks, num)
            at += 1
        if end == position and goes_on:
            return True
        position = max(end, position + 1)
    return False


@short_kernel
def find_words(
    reader: _Record, text: Int32Array, at: int, walks: Int32Array, found: Int32Array, at_sentence: bool
) -> tuple[int, bool, bool]:
    """Find the words that begin at a position: where each ends, its number within and at the start of a sentence, and
    whether it may follow an elision; 0 is no number.

    Return how many there are, whether one may reach the end of the text, and whether one may go on after it.
    """
    length, num, num_found = len(text) - 1, 0, 0
    capitals = reader.capitals if at_sentence or reader.capitals != _SENTENCES else _NOWHERE
    added = reader.added_capitals if at_sentence or reader.added_capitals != _SENTENCES else _NOWHERE
    num = _start(reader, text[at + 1], walks, capitals, added)
    end, best_end, goes_on = at + 1, -1, False
    # Ranks of listed and added words, each within a sentence and where one starts, that may carry an 's: here, and one
    # and two characters before.
    bare = (NO_RANK, NO_RANK, NO_RANK, NO_RANK)
    bare_1, bare_2 = bare, bare
    while True:
        listed, listed_at, extra, extra_at, follows = NO_RANK, NO_RANK, NO_RANK, NO_RANK, False
        own, own_at, own_extra, own_extra_at = NO_RANK, NO_RANK, NO_RANK, NO_RANK
        is_word = False
        for walk in range(num):
            trie, node, is_capital = walks[walk, 0], walks[walk, 1], walks[walk, 2]
            of = _trie_of(reader, trie)
            if int32_at(of.ranks)[node] == NO_RANK:
                continue
            is_word = True
            kind = uint8_at(of.kinds)[node]
            if trie == 2 or (is_capital & 2 and kind & MELTS):
                continue
            rank = _rank(reader, of, node) if trie == 0 else int32_at(of.ranks)[node]
            if rank == NO_RANK:
                continue
            follows |= kind & FOLLOWS_ELISION != 0
            within = NO_RANK if is_capital & 1 else rank
            if trie == 0:
                listed, listed_at = min(listed, within), min(listed_at, rank)
                if kind & POSSESSABLE:
                    own, own_at = min(own, within), min(own_at, rank)
            else:
                extra, extra_at = min(extra, within), min(extra_at, rank)
                if kind & POSSESSABLE:
                    own_extra, own_extra_at = min(own_extra, within), min(own_extra_at, rank)
        if reader.has_possessives:
            if text[end] == 115 and end - at > 2 and is_one(reader, text[end - 1], APOSTROPHE):
                listed, listed_at = min(listed, bare_2[0]), min(listed_at, bare_2[1])
                extra, extra_at = min(extra, bare_2[2]), min(extra_at, bare_2[3])
            bare_2 = bare_1
            bare_1 = (own, own_at, own_extra, own_extra_at)
        if reader.is_unspaced and reader.is_longest:
            if is_word:
                best_end = end
                found[0, 0], found[0, 3] = end, 0
                found[0, 1], found[0, 2] = _number(reader, listed, extra), _number(reader, listed_at, extra_at)
        elif min(listed_at, extra_at) != NO_RANK and _may_end_word(reader, text, end):
            found[num_found, 0], found[num_found, 3] = end, follows
            found[num_found, 1] = _number(reader, listed, extra)
            found[num_found, 2] = _number(reader, listed_at, extra_at)
            num_found += 1
        if end == length:
            goes_on = _has_child(reader, walks, num)
            if reader.has_possessives and is_one(reader, text[end], APOSTROPHE):
                goes_on |= min(bare_2[1], bare_2[3]) != NO_RANK
            break
        num = _advance(reader, text[end + 1], walks, num)
        is_bare = reader.has_possessives and (
            (min(bare_1[1], bare_1[3]) != NO_RANK and is_one(reader, text[end + 1], APOSTROPHE))
            or (min(bare_2[1], bare_2[3]) != NO_RANK and is_one(reader, text[end], APOSTROPHE) and text[end + 1] == 115)
        )
        if num == 0 and not is_bare:
            end = -1
            break
        end += 1
    if best_end >= 0 and _may_end_word(reader, text, best_end):
        num_found = 1
    return num_found, end == length, goes_on


@inlined
def _may_end_word(reader: _Record, text: Int32Array, end: int) -> bool:
    """Return whether a word may end at a position, by what follows.

    That is a gap, or the next word after an elision, which ends in an apostrophe. In a language without spaces no two
    Latin letters are parted.
    """
    if end == len(text) - 1:
        return True
    if reader.is_unspaced:
        return not (is_one(reader, text[end], LETTER) and is_one(reader, text[end + 1], LETTER))
    return is_one(reader, text[end + 1], NEVER_IN_WORDS) or is_one(reader, text[end], APOSTROPHE)


@short_kernel
def _start(reader: _Record, char: int, walks: Int32Array, capitals: int, added_capitals: int) -> int:
    """Begin the walks of words that begin with a character; return how many there are.

    A walk is a trie, a node, and the sum of 1 where its capital needs the start of a sentence, and 2 where its
    first letter is a small one there.
    """
    num = 0
    for trie in range(3):
        address = reader.words if trie == 0 else reader.added if trie == 1 else reader.reference
        if address == 0:
            continue
        of = _trie_at(address)
        num = _add_walk(of, trie, PLAIN_ROOT, char, 0, walks, num)
        where = capitals if trie == 0 else added_capitals if trie == 1 else _NOWHERE
        if where == _NOWHERE:
            continue
        needs = 1 if where == _SENTENCES else 0
        num = _add_walk(of, trie, MELTED_ROOT, char, needs, walks, num)
        letters = int32_at(of.capitals)
        first = _first_at(letters, of.num_capitals, char)
        while first < of.num_capitals and letters[first] == char:
            num = _add_walk(of, trie, PLAIN_ROOT, int32_at(of.small_letters)[first], needs + 2, walks, num)
            first += 1
    return num


@inlined
def _add_walk(of: _Record, trie: int, root: int, char: int, is_capital: int, walks: Int32Array, num: int) -> int:
    node = _child(of, root, char)
    if node < 0 or num == len(walks):
        return num
    walks[num, 0], walks[num, 1], walks[num, 2] = trie, node, is_capital
    return num + 1


@inlined
def _advance(reader: _Record, char: int, walks: Int32Array, num: int) -> int:
    """Take all walks on by a character; return how many are left."""
    kept = 0
    for walk in range(num):
        trie = walks[walk, 0]
        of = _trie_of(reader, trie)
        node = _child(of, walks[walk, 1], char)
        # Nothing within N is below; in a dictionary all words count.
        if node < 0 or (trie == 0 and not reader.is_unspaced and int32_at(of.ranks_below)[node] > reader.n_words):
            continue
        walks[kept, 0], walks[kept, 1], walks[kept, 2] = trie, node, walks[walk, 2]
        kept += 1
    return kept


@inlined
def _has_child(reader: _Record, walks: Int32Array, num: int) -> bool:
    """Return whether a word goes on from where one of the walks has come."""
    for walk in range(num):
        first_child, node = int32_at(_trie_of(reader, walks[walk, 0]).first_child), walks[walk, 1]
        if first_child[node] < first_child[node + 1]:
            return True
    return False


@short_kernel
def _is_terminal(reader: _Record, walks: Int32Array, num: int) -> bool:
    """Return whether a word ends where one of the walks has come."""
    num_ends = 0
    for walk in range(num):
        num_ends += int32_at(_trie_of(reader, walks[walk, 0]).ranks)[walks[walk, 1]] != NO_RANK
    return num_ends > 0


@inlined
def _trie_of(reader: _Record, trie: int) -> _Record:
    return _trie_at(reader.words if trie == 0 else reader.added if trie == 1 else reader.reference)


@inlined
def _child(of: _Record, node: int, char: int) -> int:
    """Return the node that a character leads to from another; -1 for none."""
    first_child = int32_at(of.first_child)
    return position_of(int32_at(of.labels), first_child[node], first_child[node + 1], char)


@short_kernel
def _rank(reader: _Record, of: _Record, node: int) -> int:
    """Return the best rank of a listed form that is within N and not left out; ``NO_RANK`` for none."""
    rank = int32_at(of.ranks)[node]
    if rank > reader.n_words:
        return NO_RANK
    if not _is_left_out(reader, rank):
        return int(rank)
    nodes, ranks = int32_at(of.more_nodes), int32_at(of.more_ranks)
    at = _first_at(nodes, of.num_more, node)
    while at < of.num_more and nodes[at] == node and ranks[at] <= reader.n_words:
        if not _is_left_out(reader, ranks[at]):
            return int(ranks[at])
        at += 1
    return NO_RANK


@short_kernel
def _is_left_out(reader: _Record, rank: int) -> bool:
    return position_of(int32_at(reader.left_out), 0, reader.num_left_out, rank) >= 0


@inlined
def _number(reader: _Record, listed: int, extra: int) -> int:
    """Return the number of a word: the rank of a listed one, or that of an added one; 0 for none."""
    if listed != NO_RANK:
        return listed
    return 0 if extra == NO_RANK else int32_at(reader.added_numbers)[extra - 1]


@short_kernel
def _first_at(values: Any, num: int, value: int) -> int:
    """Return where the first of ascending values stands that is not below ``value``."""
    first, last = 0, num
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < value:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def gap_edge(reader: _Record, place: int, char: int) -> int:
    """Return the edge by which a character leads on from a gap state; -1 for none."""
    start = int32_at(reader.gap_start)
    return position_of(int32_at(reader.gap_labels), start[place], start[place + 1], char)


@inlined
def is_one(reader: _Record, char: int, flags: int) -> bool:
    return bool(char < reader.num_classes and uint8_at(reader.classes)[char] & flags)
