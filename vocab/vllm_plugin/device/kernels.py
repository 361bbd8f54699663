# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Masks of lists and steps over sampled tokens on a GPU, in Triton: the algorithm of ``vocab.matching.mask_kernels``.

A step of the engine writes the masks of its sequences in two kernels, applies them to the logits, samples, and advances
each sequence by its token: nothing is copied, and nothing waits for the CPU.

``arena`` is int32 memory with the arrays of lists (``vocab.vllm_plugin.device.tables``). A *table* is the place of a
record in it, ``RECORD``: the numbers of a list at N, and the places of its arrays. A *slot* is what is known of a
sequence, int64 (``NUM_COLUMNS``,); ``index`` says which slot each row of a batch has. Rows of slots without a table are
left alone.

Importing this needs Triton.
"""

from typing import Final, NamedTuple

import triton
import triton.language as tl

from vocab.matching.mask_kernels import TRIE_ARRAYS


class Launch(NamedTuple):
    """How a kernel is launched: words or tokens of a block, None where it has one program a sequence; and warps."""

    block: int | None
    num_warps: int


LAUNCHES: Final = {
    "write_rows": Launch(1024, 4),
    "write_words": Launch(256, 8),
    "apply_mask": Launch(4096, 4),
    "advance": Launch(None, 1),
}

MAX_READINGS: Final = 8
"""Of a text. More are dropped, which forbids texts and allows none."""

MAX_STOPS: Final = 8
"""Tokens that end a text."""

TRIE: Final = (*TRIE_ARRAYS, "distances")
"""Arrays of a trie, as of ``vocab.matching.mask_kernels.TrieRecord``."""

RECORD: Final = (
    *("n_words", "row_size", "num_base", "num_added", "longest_distance", "plain_budget"),
    *("frame_start", "frame_tokens", "frame_targets", "way_start", "way_nodes", "way_contexts"),
    *("is_complete", "modes", "after", "frame_distances"),
    *("row_of", "rows", "row_counts"),
    *(f"base_{name}" for name in TRIE),
    *(f"added_{name}" for name in TRIE),
)
"""A list at N, as of ``vocab.matching.mask_kernels.ListRecord``: six numbers, then arrays. ``rows`` has the distinct
rows of frame states, of ``row_size`` words and ``row_counts`` tokens each; ``row_of`` says which one a state has."""

_N_WORDS = tl.constexpr(RECORD.index("n_words"))
_ROW_SIZE = tl.constexpr(RECORD.index("row_size"))
_NUM_BASE = tl.constexpr(RECORD.index("num_base"))
_NUM_ADDED = tl.constexpr(RECORD.index("num_added"))
_LONGEST_DISTANCE = tl.constexpr(RECORD.index("longest_distance"))
_PLAIN_BUDGET = tl.constexpr(RECORD.index("plain_budget"))
_FRAME_START = tl.constexpr(RECORD.index("frame_start"))
_FRAME_TOKENS = tl.constexpr(RECORD.index("frame_tokens"))
_FRAME_TARGETS = tl.constexpr(RECORD.index("frame_targets"))
_WAY_START = tl.constexpr(RECORD.index("way_start"))
_WAY_NODES = tl.constexpr(RECORD.index("way_nodes"))
_WAY_CONTEXTS = tl.constexpr(RECORD.index("way_contexts"))
_IS_COMPLETE = tl.constexpr(RECORD.index("is_complete"))
_MODES = tl.constexpr(RECORD.index("modes"))
_AFTER = tl.constexpr(RECORD.index("after"))
_FRAME_DISTANCES = tl.constexpr(RECORD.index("frame_distances"))
_ROW_OF = tl.constexpr(RECORD.index("row_of"))
_ROWS = tl.constexpr(RECORD.index("rows"))
_ROW_COUNTS = tl.constexpr(RECORD.index("row_counts"))
_BASE = tl.constexpr(RECORD.index("base_edge_start"))
_ADDED = tl.constexpr(RECORD.index("added_edge_start"))
# Of a trie, after ``_BASE`` or ``_ADDED``.
_EDGE_START = tl.constexpr(TRIE.index("edge_start"))
_TOKENS = tl.constexpr(TRIE.index("tokens"))
_CHILDREN = tl.constexpr(TRIE.index("children"))
_RANKS = tl.constexpr(TRIE.index("ranks"))
_RANKS_BELOW = tl.constexpr(TRIE.index("ranks_below"))
_KINDS = tl.constexpr(TRIE.index("kinds"))
_DISTANCES = tl.constexpr(TRIE.index("distances"))

SLOT: Final = ("table", "num_readings", "left", "num_early", "ngram_size", "history_length", "num_stops")
"""A slot: its table, -1 for none; how many readings its text has, none where it is dead; how many tokens may follow the
next one, -1 for any number; how many must come before a stop token; how many in a row may not come twice, 0 for any;
how many tokens its history has; how many stop tokens. Then its readings and its stop tokens."""

NUM_COLUMNS: Final = len(SLOT) + MAX_READINGS + MAX_STOPS

_TABLE = tl.constexpr(SLOT.index("table"))
_NUM_READINGS = tl.constexpr(SLOT.index("num_readings"))
_LEFT = tl.constexpr(SLOT.index("left"))
_NUM_EARLY = tl.constexpr(SLOT.index("num_early"))
_NGRAM_SIZE = tl.constexpr(SLOT.index("ngram_size"))
_HISTORY_LENGTH = tl.constexpr(SLOT.index("history_length"))
_NUM_STOPS = tl.constexpr(SLOT.index("num_stops"))
_READINGS = tl.constexpr(len(SLOT))
_STOPS = tl.constexpr(len(SLOT) + MAX_READINGS)
_COLUMNS = tl.constexpr(NUM_COLUMNS)
_MAX_READINGS = tl.constexpr(MAX_READINGS)
_MAX_STOPS = tl.constexpr(MAX_STOPS)

_NEVER_ENDS = tl.constexpr(1 << 20)
_FAR = tl.constexpr(255)
_NONE = tl.constexpr(2**63 - 1)
"""No reading; greater than all."""
_LANES = tl.constexpr(32)
"""Distinct readings that a token may lead to, before those beyond ``MAX_READINGS`` are dropped."""


# Of records.


@triton.jit
def _byte(arena, place, at):
    """Return bytes of an array of uint8, as int32."""
    return tl.load((arena + place).to(tl.pointer_type(tl.uint8), bitcast=True) + at).to(tl.int32)


@triton.jit
def _context(reading):
    return (reading >> 32).to(tl.int32)


@triton.jit
def _node(reading):
    return (reading & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def _trie_of(record, node):
    """Return the fields of the trie that has a node, and the node's index in it."""
    num_base = tl.load(record + _NUM_BASE)
    is_added = node >= num_base
    return record + tl.where(is_added, _ADDED, _BASE), tl.where(is_added, node - num_base, node)


@triton.jit
def _row_of(record, arena, state):
    return tl.load(arena + tl.load(record + _ROW_OF) + state)


@triton.jit
def _frame_state_of(record, arena, reading):
    """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
    state = (-1 - reading).to(tl.int32)
    if reading >= 0:
        context, node = _context(reading), _node(reading)
        trie, own = _trie_of(record, node)
        mode = tl.load(arena + tl.load(record + _MODES) + context)
        ranks = arena + tl.load(trie + _RANKS)
        if node < tl.load(record + _NUM_BASE):
            rank = tl.load(ranks + (mode & 1) * tl.load(record + _NUM_BASE) + own)
        else:
            rank = tl.load(ranks + mode * tl.load(record + _NUM_ADDED) + own)
        after = tl.load(arena + tl.load(record + _AFTER) + 3 * context + _byte(arena, tl.load(trie + _KINDS), own))
        state = tl.where(rank <= tl.load(record + _N_WORDS), after, -1)
    return state


@triton.jit
def _may_follow(record, arena, context, nodes, on, budget):
    """Return whether N allows a word at or below each node and, near the end of a budget, a text ends in time."""
    mode = tl.load(arena + tl.load(record + _MODES) + context)
    num_base = tl.load(record + _NUM_BASE)
    num_added = tl.load(record + _NUM_ADDED)
    is_base = nodes < num_base
    # Of a list's own words, only the first bit of the mode counts.
    base_mode = mode & 1
    added = nodes - num_base
    ranks_of_base = tl.load(record + _BASE + _RANKS_BELOW) + base_mode * num_base + nodes
    ranks_of_added = tl.load(record + _ADDED + _RANKS_BELOW) + mode * num_added + added
    ranks = tl.load(arena + tl.where(is_base, ranks_of_base, ranks_of_added), mask=on, other=2147483647)
    is_allowed = on & (ranks <= tl.load(record + _N_WORDS))
    if budget >= 0:
        best = tl.full(nodes.shape, _NEVER_ENDS, tl.int32)
        distances = arena.to(tl.pointer_type(tl.uint8), bitcast=True)
        of_base = tl.load(record + _BASE + _DISTANCES).to(tl.int64) * 4
        of_added = tl.load(record + _ADDED + _DISTANCES).to(tl.int64) * 4
        for kind in tl.static_range(3):
            at_base = of_base + (base_mode * 3 + kind) * num_base + nodes
            at_added = of_added + (mode * 3 + kind) * num_added + added
            word = tl.load(distances + tl.where(is_base, at_base, at_added), mask=on, other=255).to(tl.int32)
            after = tl.load(arena + tl.load(record + _AFTER) + 3 * context + kind)
            to_end = tl.load(arena + tl.load(record + _FRAME_DISTANCES) + after)
            best = tl.minimum(best, tl.where(word < _FAR, word + to_end, _NEVER_ENDS))
        is_allowed = is_allowed & (best <= budget)
    return is_allowed


# Of masks.


@triton.jit
def _add_bits(row, tokens, on):
    """Set bits; return which were not set, int32."""
    bit = tl.full(tokens.shape, 1, tl.int32) << (tokens & 31)
    before = tl.atomic_or(row + (tokens >> 5), bit, mask=on)
    return tl.where(on & (((before >> (tokens & 31)) & 1) == 0), 1, 0)


@triton.jit
def _add_row(row, record, arena, state, block: tl.constexpr):
    """Add the row of a frame state; return how many tokens are new."""
    size = tl.load(record + _ROW_SIZE)
    of_state = arena + tl.load(record + _ROWS) + _row_of(record, arena, state) * size
    new = tl.zeros((block,), tl.int32)
    first = tl.full((), 0, tl.int32)
    while first < size:
        at = first + tl.arange(0, block)
        words = tl.load(of_state + at, mask=at < size, other=0)
        before = tl.atomic_or(row + at, words, mask=words != 0)
        fresh = tl.where(words != 0, words & ~before, 0).to(tl.uint32, bitcast=True)
        # Bits set in a word, without a call into a library.
        fresh = fresh - ((fresh >> 1) & 0x55555555)
        fresh = (fresh & 0x33333333) + ((fresh >> 2) & 0x33333333)
        new += ((((fresh + (fresh >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24).to(tl.int32)
        first += block
    return tl.sum(new)


@triton.jit
def _add_children(row, record, arena, context, node, budget, block: tl.constexpr):
    """Add the tokens that go on with a word from a node; return how many are new."""
    trie, own = _trie_of(record, node)
    first = tl.load(arena + tl.load(trie + _EDGE_START) + own)
    last = tl.load(arena + tl.load(trie + _EDGE_START) + own + 1)
    new = tl.zeros((block,), tl.int32)
    while first < last:
        edge = first + tl.arange(0, block)
        on = edge < last
        tokens = tl.load(arena + tl.load(trie + _TOKENS) + edge, mask=on, other=0)
        children = tl.load(arena + tl.load(trie + _CHILDREN) + edge, mask=on, other=0)
        new += _add_bits(row, tokens, _may_follow(record, arena, context, children, on, budget))
        first += block
    return tl.sum(new)


@triton.jit
def _add_frame_edges(row, record, arena, state, budget, block: tl.constexpr):
    """Add the tokens of a frame state that leave room for an end, near the end of a budget; return how many are new."""
    first = tl.load(arena + tl.load(record + _FRAME_START) + state)
    last = tl.load(arena + tl.load(record + _FRAME_START) + state + 1)
    new = tl.zeros((block,), tl.int32)
    while first < last:
        edge = first + tl.arange(0, block)
        on = edge < last
        tokens = tl.load(arena + tl.load(record + _FRAME_TOKENS) + edge, mask=on, other=0)
        targets = tl.load(arena + tl.load(record + _FRAME_TARGETS) + edge, mask=on, other=0)
        to_end = tl.load(arena + tl.load(record + _FRAME_DISTANCES) + targets, mask=on, other=_NEVER_ENDS)
        new += _add_bits(row, tokens, on & (to_end <= budget))
        first += block
    total = tl.sum(new)
    way = tl.load(arena + tl.load(record + _WAY_START) + state)
    last_way = tl.load(arena + tl.load(record + _WAY_START) + state + 1)
    while way < last_way:
        context = tl.load(arena + tl.load(record + _WAY_CONTEXTS) + way)
        node = tl.load(arena + tl.load(record + _WAY_NODES) + way)
        total += _add_children(row, record, arena, context, node, budget, block)
        way += 1
    return total


@triton.jit
def _clear_repeats(row, num_words, slot, run, block: tl.constexpr):
    """Clear the tokens that would repeat a run of a text; return how many were set."""
    size = tl.load(slot + _NGRAM_SIZE)
    length = tl.load(slot + _HISTORY_LENGTH)
    cleared = tl.zeros((block,), tl.int32)
    if size > 0:
        first = size - 1
        while first < length:
            at = first + tl.arange(0, block)
            is_same = at < length
            j = tl.full((), 1, tl.int64)
            while j < size:
                is_same = is_same & (tl.load(run + at - j, mask=is_same, other=-1) == tl.load(run + length - j))
                j += 1
            tokens = tl.load(run + at, mask=is_same, other=0)
            is_same = is_same & (tokens < 32 * num_words)
            bit = tl.full((block,), 1, tl.int32) << (tokens & 31)
            before = tl.atomic_and(row + (tokens >> 5), ~bit, mask=is_same)
            cleared += tl.where(is_same & (((before >> (tokens & 31)) & 1) == 1), 1, 0)
            first += block
    return tl.sum(cleared)


# Of steps.


@triton.jit
def _position_of(values, first, end, value):
    """Return the place of a value in the ascending ``values[first:end]``, or -1."""
    last = end
    while first < last:
        middle = (first + last) >> 1
        if tl.load(values + middle) < value:
            first = middle + 1
        else:
            last = middle
    found = tl.full((), -1, tl.int32)
    # Nested, for nothing is loaded past the end.
    if first < end:  # noqa: SIM102
        if tl.load(values + first) == value:
            found = first
    return found


@triton.jit
def _step_in_word(record, arena, context, node, token, budget):
    """Return the reading within a word that a token leads to, ``_NONE`` for none."""
    trie, own = _trie_of(record, node)
    starts = arena + tl.load(trie + _EDGE_START) + own
    edge = _position_of(arena + tl.load(trie + _TOKENS), tl.load(starts), tl.load(starts + 1), token)
    reading = tl.full((), _NONE, tl.int64)
    if edge >= 0:
        # A block of one, for what is shared with masks.
        child = tl.load(arena + tl.load(trie + _CHILDREN) + edge + tl.arange(0, 1))
        is_allowed = _may_follow(record, arena, context, child, child >= 0, budget)
        reading = tl.min(tl.where(is_allowed, (context.to(tl.int64) << 32) | child.to(tl.int64), _NONE))
    return reading


@triton.jit
def _step_in_frame(record, arena, state, token, budget):
    """Return the frame's reading that a token leads to, ``_NONE`` for none."""
    starts = arena + tl.load(record + _FRAME_START) + state
    edge = _position_of(arena + tl.load(record + _FRAME_TOKENS), tl.load(starts), tl.load(starts + 1), token)
    reading = tl.full((), _NONE, tl.int64)
    if edge >= 0:
        target = tl.load(arena + tl.load(record + _FRAME_TARGETS) + edge)
        to_end = tl.load(arena + tl.load(record + _FRAME_DISTANCES) + target)
        if (budget < 0) | (to_end <= budget):
            reading = (-1 - target).to(tl.int64)
    return reading


@triton.jit
def _insert(found, reading):
    """Return the readings found with one more, unless it is none or there."""
    lanes = tl.arange(0, _LANES)
    is_there = tl.sum((found == reading).to(tl.int32)) > 0
    num = tl.sum((found != _NONE).to(tl.int32))
    return tl.where((lanes == num) & (is_there == 0), reading, found)


# The kernels.


@triton.jit
def write_rows(bits, num_words, index, slots, arena, block: tl.constexpr):
    """Write the row of each sequence's first frame state into ``bits``, int32 (sequences, num_words), or nothing.

    One program per sequence and ``block`` words.
    """
    i = tl.program_id(0)
    slot = slots + tl.load(index + i).to(tl.int64) * _COLUMNS
    table = tl.load(slot + _TABLE)
    if table >= 0:
        record = arena + table
        at = tl.program_id(1) * block + tl.arange(0, block)
        words = tl.zeros((block,), tl.int32)
        left = tl.load(slot + _LEFT)
        if (tl.load(slot + _NUM_READINGS) > 0) & ((left < 0) | (left >= tl.load(record + _LONGEST_DISTANCE))):
            state = _frame_state_of(record, arena, tl.load(slot + _READINGS))
            if state >= 0:
                row = arena + tl.load(record + _ROWS) + _row_of(record, arena, state) * tl.load(record + _ROW_SIZE)
                words = tl.load(row + at, mask=at < tl.load(record + _ROW_SIZE), other=0)
        tl.store(bits + i.to(tl.int64) * num_words + at, words, mask=at < num_words)


@triton.jit
def write_words(bits, num_words, index, slots, history, max_history, num_dead, arena, block: tl.constexpr):
    """Complete the masks: the words' own tokens, further readings, stop tokens, and what would repeat a run.

    A dead text, which no token leads to, may only stop, and is counted in ``num_dead``, int32 (1,). ``history`` is
    int32 (slots, max_history), the tokens of each text. One program per sequence.
    """
    i = tl.program_id(0)
    number = tl.load(index + i).to(tl.int64)
    slot = slots + number * _COLUMNS
    table = tl.load(slot + _TABLE)
    if table >= 0:
        record = arena + table
        row = bits + i.to(tl.int64) * num_words
        left = tl.load(slot + _LEFT)
        is_bound = (left >= 0) & (left < tl.load(record + _LONGEST_DISTANCE))
        budget = tl.where(is_bound, left, tl.load(record + _PLAIN_BUDGET)).to(tl.int32)
        num_readings = tl.load(slot + _NUM_READINGS).to(tl.int32)
        if num_readings == 0:
            tl.atomic_add(num_dead, 1)
        zero = tl.full((), 0, tl.int32)
        is_first_round = zero + 1
        goes_on = zero + 1
        while goes_on > 0:
            can_stop = (num_readings == 0).to(tl.int32)
            total = zero
            k = zero
            while k < num_readings:
                reading = tl.load(slot + _READINGS + k)
                state = _frame_state_of(record, arena, reading)
                if state >= 0:
                    can_stop = can_stop | _byte(arena, tl.load(record + _IS_COMPLETE), state)
                    if is_bound:
                        total += _add_frame_edges(row, record, arena, state, budget, block)
                    elif (k == 0) & (is_first_round > 0):
                        # The first kernel has written it.
                        total += tl.load(arena + tl.load(record + _ROW_COUNTS) + _row_of(record, arena, state))
                    else:
                        total += _add_row(row, record, arena, state, block)
                if reading >= 0:
                    total += _add_children(row, record, arena, _context(reading), _node(reading), budget, block)
                k += 1
            if (can_stop > 0) & ((tl.load(slot + _NUM_EARLY) <= 0) | (total == 0)):
                lanes = tl.arange(0, _MAX_STOPS)
                on = lanes < tl.load(slot + _NUM_STOPS)
                stops = tl.load(slot + _STOPS + lanes, mask=on, other=0).to(tl.int32)
                total += tl.sum(_add_bits(row, stops, on & (stops < 32 * num_words)))
            goes_on = zero
            if is_first_round > 0:
                # Other threads of the program may have set the bits that are cleared here, and set them again.
                tl.debug_barrier()
                run = history + number * max_history
                cleared = _clear_repeats(row, num_words, slot, run, block)
                tl.debug_barrier()
                # Where nothing would be left, all stay.
                goes_on = ((cleared == total) & (total > 0)).to(tl.int32)
            is_first_round = zero


@triton.jit
def apply_mask(logits, stride, num_tokens, bits, num_words, index, slots, block: tl.constexpr):
    """Set the logits of forbidden tokens to minus infinity; logits are any float (sequences, num_tokens), by rows.

    One program per sequence and ``block`` tokens, a multiple of 32.
    """
    i = tl.program_id(0)
    slot = slots + tl.load(index + i).to(tl.int64) * _COLUMNS
    if tl.load(slot + _TABLE) >= 0:
        token = tl.program_id(1) * block + tl.arange(0, block)
        on = token < num_tokens
        words = tl.load(bits + i.to(tl.int64) * num_words + (token >> 5), mask=on, other=0)
        is_forbidden = ((words >> (token & 31)) & 1) == 0
        tl.store(logits + i.to(tl.int64) * stride + token, -float("inf"), mask=on & is_forbidden)


@triton.jit
def advance(tokens, num_sampled, index, slots, history, max_history, arena):
    """Advance each sequence that sampled a token by it; ``tokens`` int64 and ``num_sampled`` int32 (sequences,).

    A stop token changes nothing: the text is over, and a step that is under way samples nothing that counts. One
    program per sequence.
    """
    i = tl.program_id(0)
    number = tl.load(index + i).to(tl.int64)
    slot = slots + number * _COLUMNS
    table = tl.load(slot + _TABLE)
    token = tl.load(tokens + i).to(tl.int32)
    stop = tl.arange(0, _MAX_STOPS)
    stops = tl.load(slot + _STOPS + stop, mask=stop < tl.load(slot + _NUM_STOPS), other=-1)
    is_stop = tl.sum((stops == token).to(tl.int32)) > 0
    if (table >= 0) & (tl.load(num_sampled + i) > 0) & (is_stop == 0):
        record = arena + table
        left = tl.load(slot + _LEFT)
        is_bound = (left >= 0) & (left < tl.load(record + _LONGEST_DISTANCE))
        budget = tl.where(is_bound, left, tl.load(record + _PLAIN_BUDGET)).to(tl.int32)
        # Distinct, each in a lane; the lanes after them have none.
        found = tl.full((_LANES,), _NONE, tl.int64)
        num_readings = tl.load(slot + _NUM_READINGS).to(tl.int32)
        k = tl.full((), 0, tl.int32)
        while k < num_readings:
            reading = tl.load(slot + _READINGS + k)
            if reading >= 0:
                found = _insert(found, _step_in_word(record, arena, _context(reading), _node(reading), token, budget))
            state = _frame_state_of(record, arena, reading)
            if state >= 0:
                found = _insert(found, _step_in_frame(record, arena, state, token, budget))
                way = tl.load(arena + tl.load(record + _WAY_START) + state)
                last = tl.load(arena + tl.load(record + _WAY_START) + state + 1)
                while way < last:
                    context = tl.load(arena + tl.load(record + _WAY_CONTEXTS) + way)
                    node = tl.load(arena + tl.load(record + _WAY_NODES) + way)
                    found = _insert(found, _step_in_word(record, arena, context, node, token, budget))
                    way += 1
            k += 1
        # Ascending: a reading comes after all that are smaller.
        place = tl.sum((found[None, :] < found[:, None]).to(tl.int32), axis=1)
        is_one = found != _NONE
        # All threads have read the old ones.
        tl.debug_barrier()
        tl.store(slot + _READINGS + place, found, mask=is_one & (place < _MAX_READINGS))
        tl.store(slot + _NUM_READINGS, tl.minimum(tl.sum(is_one.to(tl.int64)), _MAX_READINGS))
        if left > 0:
            tl.store(slot + _LEFT, left - 1)
        tl.store(slot + _NUM_EARLY, tl.load(slot + _NUM_EARLY) - 1)
        length = tl.load(slot + _HISTORY_LENGTH)
        tl.store(history + number * max_history + length, token, mask=length < max_history)
        tl.store(slot + _HISTORY_LENGTH, tl.minimum(length + 1, max_history))
