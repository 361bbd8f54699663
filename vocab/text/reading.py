"""The compiled reading of texts: every parse of a text at once, by positions and gap states.

A *lattice* has, for each position, the gap states that a parse may have reached there, each with the best way to it.

A text is read in parts. What later characters cannot change is *settled*: the parses up to the first position from
which a word reaches the end of what was read. Their rows at that position and after it are kept, with the characters
that follow; the next part is read from there. So a part costs its own length and that of the word that is open.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array, inlined, int32_at, short_kernel, uint8_at
from vocab.marks import BLANK
from vocab.text.lookup import (
    AFTER_ELISION,
    APOSTROPHE,
    DIGIT,
    INSIDE_UNIT,
    JOINT,
    LETTER,
    MAX_WALKS,
    NEVER_IN_WORDS,
    STARTS_SENTENCE,
    WORD_MAY_START,
    find_words,
    gap_edge,
    is_one,
    reader_at,
)

_BLANK: Final = ord(BLANK)

# The memory of a followed text: these numbers, then the rows of its lattice, then characters.
NUM_ROWS, NUM_CHARS, BASE, COVERED, NUM_LOGGED, NUM_WHOLE, NUM_COMPLETE = 0, 1, 2, 3, 4, 5, 6
BEST_RANK, BEST_NUM_WORDS, BEST_LAST, IS_DEAD = 7, 8, 9, 10
HEADER: Final = 11
"""Rows kept, and characters kept, of which the first stands before position ``BASE``; where the furthest word ends
that began before it; lengths. Of the best complete parse its rarest rank, its words, and the last of them in the log;
-1 where there is none."""

# A row of the lattice: the best way to a gap state; smaller is better, field by field.
_PLACE, _MAX_RANK, _NUM_WORDS, _FROM, _PLACE_BEFORE, _WORD, _LAST, _NEXT = 0, 1, 2, 3, 4, 5, 6, 7
ROW: Final = 8
"""Its gap state; the rarest rank and the number of words so far; position and gap state before its last step, and the
word of that, 0 for a mark, a blank or a digit; the last word in the log; the next row of its position, in memory its
position."""

# A word in the log.
LOG_BEFORE, LOG_NUMBER, LOG_START, LOG_END, LOG_PLACE = 0, 1, 2, 3, 4
LOG_ROW: Final = 5
"""The word before it in the log; its number; where it stands; the gap state before it."""

# What a reading finds.
_ROWS, _LOGGED, _FURTHEST, _WHOLE, _CUT, _COVER, _FREEZE, _FROZEN = 0, 1, 2, 3, 4, 5, 6, 7
_FROZEN_LOG, _FROZEN_COVER, _BEGUN, _LAST_BEGUN, _GOES_ON = 8, 9, 10, 11, 12
_NUM_FACTS: Final = 13

ALIVE, WHOLE, OPEN, COMPLETE, BETWEEN_WORDS = 1, 2, 4, 8, 16
LENGTH_BITS: Final = 28
FLAG_BITS: Final = 5
"""What ``read_on`` returns: these flags, then ``num_whole``, then ``num_complete``."""

NEEDS_MEMORY, NEEDS_LOG = -1, -2
_NO_ROOM, _IS_WORSE = -1, -2

_Record = Any


@short_kernel
def read_on(reader_address: int, memory: Int32Array, log: Int32Array, part: Int32Array) -> int:
    """Read the next part of a text, code points; return what holds of it now.

    ``memory`` is int32 (``HEADER`` + any,), ``log`` int32 (any, ``LOG_ROW``). Where one is too short, nothing is read,
    and ``NEEDS_MEMORY`` or ``NEEDS_LOG`` is returned.
    """
    reader = reader_at(reader_address)
    if memory[IS_DEAD] != 0:
        return _packed(memory, 0)
    num_old, num_rows, base = memory[NUM_CHARS], memory[NUM_ROWS], memory[BASE]
    text = np.empty(num_old + len(part), np.int32)
    first_char = HEADER + ROW * num_rows
    for at in range(num_old):
        text[at] = memory[first_char + at]
    for at in range(len(part)):
        text[num_old + at] = part[at]
    length = len(text) - 1
    room = 4 * length + num_rows + 32
    while True:
        lattice, frozen = np.empty((room, ROW), np.int32), np.empty((room, ROW), np.int32)
        heads, facts = np.full(length + 1, -1, np.int32), _first_facts(memory)
        for row in range(num_rows):
            _load(lattice, heads, facts, memory, HEADER + ROW * row)
        if _read(reader, text, base, lattice, heads, log, facts, frozen, False, base + length):
            break
        if facts[_LOGGED] >= len(log):
            return NEEDS_LOG
        room *= 4
    freeze = facts[_FREEZE]
    if HEADER + ROW * facts[_FROZEN] + length - freeze + 1 > len(memory):
        return NEEDS_MEMORY
    return _commit(reader, text, base, lattice, heads, facts, frozen, memory)


@short_kernel
def cut_length(reader_address: int, first: Int32Array, text: Int32Array, most: int) -> int:
    """Return where the longest complete text ends that is a prefix of ``text`` and cuts no word; at most ``most``.

    Nothing follows the text. ``text`` has one more character before its first; ``first`` is the memory of a text
    that is not begun.
    """
    reader, length = reader_at(reader_address), len(text) - 1
    room, logged = 4 * length + 32, 2 * length + 32
    while True:
        lattice, log = np.empty((room, ROW), np.int32), np.empty((logged, LOG_ROW), np.int32)
        heads, facts = np.full(length + 1, -1, np.int32), _first_facts(first)
        _load(lattice, heads, facts, first, HEADER)
        if _read(reader, text, 0, lattice, heads, log, facts, lattice, True, most):
            break
        room, logged = 4 * room, 4 * logged
    if reader.is_unspaced:
        return _cut_of_best(reader, text, lattice, heads, facts, most)
    return int(facts[_CUT])


@short_kernel
def read_words(memory: Int32Array, log: Int32Array) -> Int32Array:
    """Return the words of the best complete parse, in order: int32 (words, ``LOG_ROW``)."""
    num_words = 0
    last = memory[BEST_LAST]
    while last >= 0:
        num_words += 1
        last = log[last, LOG_BEFORE]
    words = np.empty((num_words, LOG_ROW), np.int32)
    last = memory[BEST_LAST]
    while last >= 0:
        num_words -= 1
        words[num_words] = log[last]
        last = log[last, LOG_BEFORE]
    return words


@short_kernel
def _first_facts(memory: Int32Array) -> npt.NDArray[np.int64]:
    facts = np.zeros(_NUM_FACTS, np.int64)
    facts[_LOGGED], facts[_COVER] = memory[NUM_LOGGED], memory[COVERED]
    facts[_WHOLE], facts[_CUT] = memory[NUM_WHOLE], memory[NUM_COMPLETE]
    facts[_FREEZE] = facts[_BEGUN] = facts[_LAST_BEGUN] = -1
    return facts


@inlined
def _load(lattice: Int32Array, heads: Int32Array, facts: npt.NDArray[np.int64], memory: Int32Array, start: int) -> None:
    """Put a row of memory into the lattice."""
    row, at = facts[_ROWS], memory[start + _NEXT]
    for field in range(_NEXT):
        lattice[row, field] = memory[start + field]
    lattice[row, _NEXT] = heads[at]
    heads[at] = row
    facts[_ROWS] += 1
    facts[_FURTHEST] = max(facts[_FURTHEST], at)


@short_kernel
def _read(
    reader: _Record,
    text: Int32Array,
    base: int,
    lattice: Int32Array,
    heads: Int32Array,
    log: Int32Array,
    facts: npt.NDArray[np.int64],
    frozen: Int32Array,
    is_final: bool,
    most: int,
) -> bool:
    """Extend the parses over a text, which has the character before position ``base`` first.

    Return False where lattice or log are too short. With ``is_final`` nothing follows the text; else the rows that are
    settled are put into ``frozen``. Prefixes are cut up to ``most``.
    """
    length = len(text) - 1
    flags, targets = uint8_at(reader.gap_flags), int32_at(reader.gap_targets)
    after_word, after_elision = int32_at(reader.after_word), int32_at(reader.after_elision)
    walks, found = np.empty((MAX_WALKS, 3), np.int32), np.empty((length + 1, 4), np.int32)
    # After a digit and a joint it is not known whether the number goes on.
    ends_in_joint = length > 0 and is_one(reader, text[length - 1], DIGIT) and is_one(reader, text[length], JOINT)
    hold = length - 1 if reader.has_numbers and ends_in_joint else length
    for at in range(length + 1):
        is_due = not is_final and facts[_FREEZE] < 0
        if at == hold and is_due and not _freeze(lattice, heads, facts, frozen, at):
            return False
        if heads[at] < 0:
            continue
        _mark(reader, text, base, at, lattice, heads[at], facts, is_final, most)
        if at == length:
            break
        starts, at_sentence = False, False
        row = heads[at]
        while row >= 0:
            flag = flags[lattice[row, _PLACE]]
            starts |= flag & WORD_MAY_START != 0
            at_sentence |= flag & WORD_MAY_START != 0 and flag & STARTS_SENTENCE != 0
            row = lattice[row, _NEXT]
        num_found = 0
        if starts:
            num_found, reaches, goes_on = find_words(reader, text, at, walks, found, at_sentence)
            is_due = not is_final and facts[_FREEZE] < 0
            if reaches and is_due and not _freeze(lattice, heads, facts, frozen, at):
                return False
            if goes_on:
                facts[_GOES_ON] = 1
                facts[_LAST_BEGUN] = at
                if facts[_BEGUN] < 0:
                    facts[_BEGUN] = at
            elif reaches and not reader.is_unspaced and facts[_BEGUN] < 0:
                facts[_BEGUN] = at
        row = heads[at]
        while row >= 0:
            place = lattice[row, _PLACE]
            flag, max_rank, num_words = flags[place], lattice[row, _MAX_RANK], lattice[row, _NUM_WORDS]
            edge = gap_edge(reader, place, text[at + 1])
            if edge >= 0:
                new = _offer(lattice, heads, facts, at + 1, targets[edge], max_rank, num_words, base + at, place, 0)
                if new == _NO_ROOM:
                    return False
                if new >= 0:
                    lattice[new, _LAST] = lattice[row, _LAST]
            for word in range(num_found if flag & WORD_MAY_START else 0):
                number = found[word, 2] if flag & STARTS_SENTENCE else found[word, 1]
                if number == 0 or (flag & AFTER_ELISION and not found[word, 3]):
                    continue
                end = found[word, 0]
                joins = reader.has_elisions and is_one(reader, text[end], APOSTROPHE)
                target = after_elision[place] if joins else after_word[place]
                if reader.is_unspaced or end < length or is_final:
                    facts[_COVER] = max(facts[_COVER], base + end)
                new = _offer(
                    lattice, heads, facts, end, target, max(max_rank, number), num_words + 1, base + at, place, number
                )
                if new == _NO_ROOM or facts[_LOGGED] >= len(log):
                    return False
                if new >= 0:
                    last = facts[_LOGGED]
                    log[last, LOG_BEFORE], log[last, LOG_NUMBER] = lattice[row, _LAST], number
                    log[last, LOG_START], log[last, LOG_END], log[last, LOG_PLACE] = base + at, base + end, place
                    lattice[new, _LAST] = last
                    facts[_LOGGED] += 1
            row = lattice[row, _NEXT]
    return True


@short_kernel
def _freeze(lattice: Int32Array, heads: Int32Array, facts: npt.NDArray[np.int64], frozen: Int32Array, at: int) -> bool:
    """Keep the rows from a position on as they are now; return False where there is no room for them."""
    num = 0
    for position in range(at, facts[_FURTHEST] + 1):
        row = heads[position]
        while row >= 0:
            if num >= len(frozen):
                return False
            for field in range(_NEXT):
                frozen[num, field] = lattice[row, field]
            frozen[num, _NEXT] = position - at
            num += 1
            row = lattice[row, _NEXT]
    facts[_FREEZE], facts[_FROZEN] = at, num
    facts[_FROZEN_LOG], facts[_FROZEN_COVER] = facts[_LOGGED], facts[_COVER]
    return True


@short_kernel
def _commit(
    reader: _Record,
    text: Int32Array,
    base: int,
    lattice: Int32Array,
    heads: Int32Array,
    facts: npt.NDArray[np.int64],
    frozen: Int32Array,
    memory: Int32Array,
) -> int:
    """Write what is settled and what was found into memory; return the packed facts."""
    length, freeze, num_rows = len(text) - 1, facts[_FREEZE], facts[_FROZEN]
    memory[NUM_ROWS], memory[NUM_CHARS] = num_rows, length - freeze + 1
    memory[BASE], memory[COVERED], memory[NUM_LOGGED] = base + freeze, facts[_FROZEN_COVER], facts[_FROZEN_LOG]
    memory[NUM_WHOLE], memory[NUM_COMPLETE] = facts[_WHOLE], facts[_CUT]
    for row in range(num_rows):
        for field in range(ROW):
            memory[HEADER + ROW * row + field] = frozen[row, field]
    first_char = HEADER + ROW * num_rows
    for at in range(length - freeze + 1):
        memory[first_char + at] = text[freeze + at]
    state, best = 0, -1
    row = heads[length]
    while row >= 0:
        flag = uint8_at(reader.gap_flags)[lattice[row, _PLACE]]
        state |= WHOLE
        if not flag & INSIDE_UNIT:
            state |= BETWEEN_WORDS
        if flag & reader.may_end and (best < 0 or _is_better(lattice, row, best)):
            best = row
        row = lattice[row, _NEXT]
    memory[BEST_LAST] = memory[BEST_NUM_WORDS] = -1
    if best >= 0:
        state |= COMPLETE
        memory[BEST_RANK], memory[BEST_NUM_WORDS] = lattice[best, _MAX_RANK], lattice[best, _NUM_WORDS]
        memory[BEST_LAST] = lattice[best, _LAST]
    if state & WHOLE or facts[_GOES_ON]:
        state |= ALIVE
    else:
        memory[IS_DEAD] = 1
    if reader.is_unspaced and (facts[_BEGUN] >= 0 or _ends_openly(reader, text[length])):
        state |= OPEN
    return _packed(memory, state)


@short_kernel
def _packed(memory: Int32Array, state: int) -> int:
    whole, complete = np.int64(memory[NUM_WHOLE]), np.int64(memory[NUM_COMPLETE])
    return int(state | whole << FLAG_BITS | complete << (FLAG_BITS + LENGTH_BITS))


@short_kernel
def _is_better(lattice: Int32Array, row: int, other: int) -> bool:
    """Return whether one row of a position is better than another: by its way, then by the gap state."""
    for field in (_MAX_RANK, _NUM_WORDS, _FROM, _PLACE_BEFORE, _WORD):
        if lattice[row, field] != lattice[other, field]:
            return bool(lattice[row, field] < lattice[other, field])
    return False


@inlined
def _offer(
    lattice: Int32Array,
    heads: Int32Array,
    facts: npt.NDArray[np.int64],
    at: int,
    place: int,
    max_rank: int,
    num_words: int,
    position: int,
    place_before: int,
    word: int,
) -> int:
    """Offer a way to a gap state at a position; return its row, ``_IS_WORSE`` or ``_NO_ROOM``."""
    row = heads[at]
    while row >= 0 and lattice[row, _PLACE] != place:
        row = lattice[row, _NEXT]
    if row < 0:
        row = facts[_ROWS]
        if row >= len(lattice):
            return _NO_ROOM
        facts[_ROWS] += 1
        facts[_FURTHEST] = max(facts[_FURTHEST], at)
        lattice[row, _PLACE], lattice[row, _NEXT] = place, heads[at]
        heads[at] = row
    else:
        first, second, third = lattice[row, _MAX_RANK], lattice[row, _NUM_WORDS], lattice[row, _FROM]
        known = first, second, third, lattice[row, _PLACE_BEFORE], lattice[row, _WORD]
        if known <= (max_rank, num_words, position, place_before, word):
            return _IS_WORSE
    lattice[row, _MAX_RANK], lattice[row, _NUM_WORDS], lattice[row, _FROM] = max_rank, num_words, position
    lattice[row, _PLACE_BEFORE], lattice[row, _WORD] = place_before, word
    return int(row)


@inlined
def _mark(
    reader: _Record,
    text: Int32Array,
    base: int,
    at: int,
    lattice: Int32Array,
    row: int,
    facts: npt.NDArray[np.int64],
    is_final: bool,
    most: int,
) -> None:
    """Note whether a position that parses have come to ends whole words, or a complete text that cuts no word."""
    position, length, may_end = base + at, len(text) - 1, False
    if position == 0:
        return
    # A word that ends with a mark, such as "8.", may go on at the end of a part.
    is_known = is_final or at < length
    while row >= 0:
        may_end |= uint8_at(reader.gap_flags)[lattice[row, _PLACE]] & reader.may_end != 0
        is_known |= lattice[row, _WORD] == 0
        row = lattice[row, _NEXT]
    before = text[at]
    if reader.is_unspaced:
        is_parted = facts[_COVER] <= position and facts[_BEGUN] < 0
        if at == length:
            is_parted &= not _ends_openly(reader, before)
        else:
            is_parted &= not (is_one(reader, before, DIGIT | JOINT) and is_one(reader, text[at + 1], DIGIT | JOINT))
        if is_parted:
            facts[_WHOLE] = max(facts[_WHOLE], position)
            if may_end:
                facts[_CUT] = max(facts[_CUT], position)
        return
    is_before_mark = at < length and is_one(reader, text[at + 1], NEVER_IN_WORDS)
    if is_before_mark or (is_known and is_one(reader, before, NEVER_IN_WORDS)):
        facts[_WHOLE] = max(facts[_WHOLE], position)
    if not may_end or position > most:
        return
    if at == length:
        if is_final:
            facts[_CUT] = position
        return
    if not is_before_mark:
        return
    # A listed word with marks inside, such as "c.e.o", and a number go on where a text could also end. Words of an
    # entry with blanks are whole words.
    is_inside = facts[_COVER] > position or (not is_final and facts[_BEGUN] >= 0)
    if reader.has_numbers and is_one(reader, before, DIGIT) and is_one(reader, text[at + 1], JOINT):
        is_inside |= not is_final if at + 1 == length else is_one(reader, text[at + 2], DIGIT)
    if text[at + 1] == _BLANK or not is_inside:
        facts[_CUT] = max(facts[_CUT], position)


@short_kernel
def _ends_openly(reader: _Record, char: int) -> bool:
    """Return whether a text without spaces that ends with a character may go on within a number or a Latin word."""
    return is_one(reader, char, DIGIT | JOINT | LETTER)


@short_kernel
def _cut_of_best(
    reader: _Record,
    text: Int32Array,
    lattice: Int32Array,
    heads: Int32Array,
    facts: npt.NDArray[np.int64],
    most: int,
) -> int:
    """Return where a text may be cut on the best of the parses that go furthest; one may end in a begun word."""
    at = len(text) - 1
    if heads[at] < 0:
        at = facts[_LAST_BEGUN] if facts[_LAST_BEGUN] >= 0 else facts[_FURTHEST]
    row, best, best_complete = heads[at], -1, -1
    while row >= 0:
        if best < 0 or _is_better(lattice, row, best):
            best = row
        may_end = uint8_at(reader.gap_flags)[lattice[row, _PLACE]] & reader.may_end != 0
        if may_end and (best_complete < 0 or _is_better(lattice, row, best_complete)):
            best_complete = row
        row = lattice[row, _NEXT]
    row = best_complete if best_complete >= 0 else best
    while at > 0:
        may_end = uint8_at(reader.gap_flags)[lattice[row, _PLACE]] & reader.may_end != 0
        if at <= most and may_end and not (reader.has_numbers and _is_in_number(reader, text, at)):
            return at
        at, place = lattice[row, _FROM], lattice[row, _PLACE_BEFORE]
        row = heads[at]
        while lattice[row, _PLACE] != place:
            row = lattice[row, _NEXT]
    return 0


@short_kernel
def _is_in_number(reader: _Record, text: Int32Array, at: int) -> bool:
    """Return whether a position parts a number."""
    length = len(text) - 1
    if at == length:
        return False
    before, after = text[at], text[at + 1]
    if is_one(reader, before, DIGIT):
        if is_one(reader, after, DIGIT):
            return True
        return is_one(reader, after, JOINT) and at + 2 <= length and is_one(reader, text[at + 2], DIGIT)
    return (
        is_one(reader, before, JOINT)
        and at > 1
        and is_one(reader, text[at - 1], DIGIT)
        and is_one(reader, after, DIGIT)
    )
