# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Masks of lists and steps over sampled tokens on a GPU, in Triton: the algorithm of ``vocab.matching.mask_kernels``.

A step of the engine writes the masks of its sequences in two kernels, applies them to the logits, samples, and advances
each sequence by its token: nothing is copied, and nothing waits for the CPU.

A *table* is int32 memory that begins with a record, ``RECORD``: the numbers of a list at N, and the places of its
arrays in that memory (``vocab.vllm_plugin.device.tables``). A *slot* is what is known of a sequence, int64
(``NUM_COLUMNS``,); ``index`` says which slot each row of a batch has. Rows of slots without a table are left alone.

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

TRIE: Final = ("first_node", "num_nodes", "last_mode", *TRIE_ARRAYS, "distances")
RECORD: Final = (
    *("n_words", "row_size", "num_base", "longest_distance", "plain_budget"),
    *("frame_start", "frame_tokens", "frame_targets", "way_start", "way_nodes", "way_contexts"),
    *("is_complete", "modes", "after", "frame_distances", "row_of", "rows"),
    *(f"{trie}_{name}" for trie in ("base", "added") for name in TRIE),
)
"""A list at N, as of ``vocab.matching.mask_kernels.ListRecord``: numbers, then arrays, then its two tries, as of
``TrieRecord``. ``rows`` has the distinct rows of frame states; ``row_of`` says which one a state has."""

_N_WORDS, _ROW_SIZE, _NUM_BASE, _LONGEST_DISTANCE, _PLAIN_BUDGET = map(tl.constexpr, range(5))
_FRAME_START, _FRAME_TOKENS, _FRAME_TARGETS, _WAY_START, _WAY_NODES, _WAY_CONTEXTS = map(tl.constexpr, range(5, 11))
_IS_COMPLETE, _MODES, _AFTER, _FRAME_DISTANCES, _ROW_OF, _ROWS = map(tl.constexpr, range(11, 17))
_BASE, _ADDED = map(tl.constexpr, (17, 17 + len(TRIE)))
_FIRST_NODE, _NUM_NODES, _LAST_MODE, _EDGE_START, _TOKENS, _CHILDREN = map(tl.constexpr, range(6))
_RANKS, _RANKS_BELOW, _KINDS, _DISTANCES = map(tl.constexpr, range(6, 10))

SLOT: Final = ("table", "num_readings", "left", "num_early", "ngram_size", "history_length", "num_stops")
"""A slot: the address of its table, 0 for none; how many readings its text has, none where it is dead; how many tokens
may follow the next one, -1 for any number; how many must come before a stop token; how many in a row may not come
twice, 0 for any; how many tokens its history has; how many stop tokens. Then its readings and its stop tokens."""

NUM_COLUMNS: Final = len(SLOT) + MAX_READINGS + MAX_STOPS

_TABLE, _NUM_READINGS, _LEFT, _NUM_EARLY, _NGRAM_SIZE, _HISTORY_LENGTH, _NUM_STOPS = map(tl.constexpr, range(7))
_READINGS, _STOPS = map(tl.constexpr, (len(SLOT), len(SLOT) + MAX_READINGS))
_COLUMNS, _MAX_READINGS, _MAX_STOPS = map(tl.constexpr, (NUM_COLUMNS, MAX_READINGS, MAX_STOPS))

_WORDS = tl.constexpr(tl.pointer_type(tl.int32))
_NEVER_ENDS = tl.constexpr(1 << 20)
_FAR = tl.constexpr(255)
_NONE = tl.constexpr(2**63 - 1)
"""No reading; greater than all."""
_LANES = tl.constexpr(32)
"""Distinct readings that a token may lead to, before those beyond ``MAX_READINGS`` are dropped."""


# Of records.


@triton.jit
def _bytes(record, places, at, on):
    """Load from arrays of uint8, as int32."""
    memory = record.to(tl.pointer_type(tl.uint8), bitcast=True)
    return tl.load(memory + places.to(tl.int64) * 4 + at, mask=on).to(tl.int32)


@triton.jit
def _within(reading):
    """Return the context and the node of a reading within a word."""
    return (reading >> 32).to(tl.int32), (reading & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def _trie_of(record, nodes):
    """Return the record of the trie that has a node, or those of a block of nodes."""
    return record + tl.where(nodes < tl.load(record + _NUM_BASE), _BASE, _ADDED)


@triton.jit
def _index(tries, mode, nodes):
    """Return where an array by mode and node has nodes."""
    # Of a list's own words, only the first bit of the mode counts.
    of_mode = (mode & tl.load(tries + _LAST_MODE)) * tl.load(tries + _NUM_NODES)
    return of_mode + nodes - tl.load(tries + _FIRST_NODE)


@triton.jit
def _row(record, state):
    """Return where the row of a frame state begins."""
    number = tl.load(record + tl.load(record + _ROW_OF) + state)
    return record + tl.load(record + _ROWS) + number * tl.load(record + _ROW_SIZE)


@triton.jit
def _budget_of(slot, record):
    """Return whether the end of a budget is near, and how many tokens may follow the next one, as masks count them."""
    left = tl.load(slot + _LEFT)
    is_bound = (left >= 0) & (left < tl.load(record + _LONGEST_DISTANCE))
    return is_bound, tl.where(is_bound, left, tl.load(record + _PLAIN_BUDGET)).to(tl.int32)


@triton.jit
def _frame_state_of(record, reading):
    """Return the frame state of a reading: its own, or the one after the word that ends there; -1 for none."""
    state = (-1 - reading).to(tl.int32)
    if reading >= 0:
        context, node = _within(reading)
        trie = _trie_of(record, node)
        mode = tl.load(record + tl.load(record + _MODES) + context)
        rank = tl.load(record + tl.load(trie + _RANKS) + _index(trie, mode, node))
        kind = _bytes(record, tl.load(trie + _KINDS), node - tl.load(trie + _FIRST_NODE), True)
        after = tl.load(record + tl.load(record + _AFTER) + 3 * context + kind)
        state = tl.where(rank <= tl.load(record + _N_WORDS), after, -1)
    return state


@triton.jit
def _may_follow(record, context, nodes, on, budget):
    """Return whether N allows a word at or below each node and, near the end of a budget, a text ends in time."""
    tries = _trie_of(record, nodes)
    mode = tl.load(record + tl.load(record + _MODES) + context)
    ranks = tl.load(record + tl.load(tries + _RANKS_BELOW) + _index(tries, mode, nodes), mask=on, other=2147483647)
    is_allowed = on & (ranks <= tl.load(record + _N_WORDS))
    if budget >= 0:
        fewest = tl.full(nodes.shape, _NEVER_ENDS, tl.int32)
        num_nodes = tl.load(tries + _NUM_NODES)
        # Three kinds of words for each mode.
        first = _index(tries, mode, nodes) + 2 * (mode & tl.load(tries + _LAST_MODE)) * num_nodes
        for kind in tl.static_range(3):
            to_end_of_word = _bytes(record, tl.load(tries + _DISTANCES), first + kind * num_nodes, on)
            after = tl.load(record + tl.load(record + _AFTER) + 3 * context + kind)
            to_end = to_end_of_word + tl.load(record + tl.load(record + _FRAME_DISTANCES) + after)
            fewest = tl.minimum(fewest, tl.where(to_end_of_word < _FAR, to_end, _NEVER_ENDS))
        is_allowed = is_allowed & (fewest <= budget)
    return is_allowed


# Of masks.


@triton.jit
def _add_bits(row, tokens, on):
    tl.atomic_or(row + (tokens >> 5), tl.full(tokens.shape, 1, tl.int32) << (tokens & 31), mask=on)


@triton.jit
def _add_frame_row(row, record, state, block: tl.constexpr):
    """Add to a mask the tokens of a frame state: what may stand before, between and after words."""
    size = tl.load(record + _ROW_SIZE)
    of_state = _row(record, state)
    first = tl.full((), 0, tl.int32)
    while first < size:
        at = first + tl.arange(0, block)
        words = tl.load(of_state + at, mask=at < size, other=0)
        tl.atomic_or(row + at, words, mask=words != 0)
        first += block


@triton.jit
def _add_children(row, record, context, node, budget, block: tl.constexpr):
    """Add the tokens that go on with a word from a node."""
    trie = _trie_of(record, node)
    starts = record + tl.load(trie + _EDGE_START) + node - tl.load(trie + _FIRST_NODE)
    first, last = tl.load(starts), tl.load(starts + 1)
    while first < last:
        edge = first + tl.arange(0, block)
        on = edge < last
        tokens = tl.load(record + tl.load(trie + _TOKENS) + edge, mask=on, other=0)
        children = tl.load(record + tl.load(trie + _CHILDREN) + edge, mask=on, other=0)
        _add_bits(row, tokens, _may_follow(record, context, children, on, budget))
        first += block


@triton.jit
def _add_frame_edges(row, record, state, budget, block: tl.constexpr):
    """Add the tokens of a frame state that leave room for an end, near the end of a budget."""
    starts = record + tl.load(record + _FRAME_START) + state
    first, last = tl.load(starts), tl.load(starts + 1)
    while first < last:
        edge = first + tl.arange(0, block)
        on = edge < last
        tokens = tl.load(record + tl.load(record + _FRAME_TOKENS) + edge, mask=on, other=0)
        targets = tl.load(record + tl.load(record + _FRAME_TARGETS) + edge, mask=on, other=0)
        to_end = tl.load(record + tl.load(record + _FRAME_DISTANCES) + targets, mask=on, other=_NEVER_ENDS)
        _add_bits(row, tokens, on & (to_end <= budget))
        first += block
    ways = record + tl.load(record + _WAY_START) + state
    way, last_way = tl.load(ways), tl.load(ways + 1)
    while way < last_way:
        context = tl.load(record + tl.load(record + _WAY_CONTEXTS) + way)
        node = tl.load(record + tl.load(record + _WAY_NODES) + way)
        _add_children(row, record, context, node, budget, block)
        way += 1


@triton.jit
def _clear_repeats(row, num_words, slot, run, block: tl.constexpr):
    """Clear the tokens that would repeat a run of a text; return how many there are."""
    size, length = tl.load(slot + _NGRAM_SIZE), tl.load(slot + _HISTORY_LENGTH)
    found = tl.zeros((block,), tl.int32)
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
            bits = tl.full((block,), 1, tl.int32) << (tokens & 31)
            tl.atomic_and(row + (tokens >> 5), ~bits, mask=is_same)
            found += is_same.to(tl.int32)
            first += block
    return tl.sum(found)


@triton.jit
def _is_empty(row, num_words, block: tl.constexpr):
    """Return whether no token is allowed, after all threads of the program have done what they had to."""
    tl.debug_barrier()
    found = tl.zeros((block,), tl.int32)
    first = tl.full((), 0, tl.int32)
    while first < num_words:
        at = first + tl.arange(0, block)
        found = found | tl.load(row + at, mask=at < num_words, other=0, volatile=True)
        first += block
    is_empty = tl.sum((found != 0).to(tl.int32)) == 0
    tl.debug_barrier()
    return is_empty


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
def _step_in_word(record, context, node, token, budget):
    """Return the reading within a word that a token leads to, ``_NONE`` for none."""
    trie = _trie_of(record, node)
    starts = record + tl.load(trie + _EDGE_START) + node - tl.load(trie + _FIRST_NODE)
    edge = _position_of(record + tl.load(trie + _TOKENS), tl.load(starts), tl.load(starts + 1), token)
    reading = tl.full((), _NONE, tl.int64)
    if edge >= 0:
        # A block of one, for what is shared with masks.
        child = tl.load(record + tl.load(trie + _CHILDREN) + edge + tl.arange(0, 1))
        is_allowed = _may_follow(record, context, child, child >= 0, budget)
        reading = tl.min(tl.where(is_allowed, (context.to(tl.int64) << 32) | child.to(tl.int64), _NONE))
    return reading


@triton.jit
def _step_in_frame(record, state, token, budget):
    """Return the frame's reading that a token leads to, ``_NONE`` for none."""
    starts = record + tl.load(record + _FRAME_START) + state
    edge = _position_of(record + tl.load(record + _FRAME_TOKENS), tl.load(starts), tl.load(starts + 1), token)
    reading = tl.full((), _NONE, tl.int64)
    if edge >= 0:
        target = tl.load(record + tl.load(record + _FRAME_TARGETS) + edge)
        to_end = tl.load(record + tl.load(record + _FRAME_DISTANCES) + target)
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
def write_rows(bits, num_words, index, slots, block: tl.constexpr):
    """Write the row of each sequence's first frame state into ``bits``, int32 (sequences, num_words), or zeros.

    One program per sequence and ``block`` words.
    """
    i = tl.program_id(0)
    slot = slots + tl.load(index + i).to(tl.int64) * _COLUMNS
    table = tl.load(slot + _TABLE)
    if table != 0:
        record = table.to(_WORDS)
        at = tl.program_id(1) * block + tl.arange(0, block)
        words = tl.zeros((block,), tl.int32)
        is_bound, _ = _budget_of(slot, record)
        if (tl.load(slot + _NUM_READINGS) > 0) & (is_bound == 0):
            state = _frame_state_of(record, tl.load(slot + _READINGS))
            if state >= 0:
                words = tl.load(_row(record, state) + at, mask=at < tl.load(record + _ROW_SIZE), other=0)
        tl.store(bits + i.to(tl.int64) * num_words + at, words, mask=at < num_words)


@triton.jit
def write_words(bits, num_words, index, slots, history, max_history, num_dead, block: tl.constexpr):
    """Complete the masks: the words' own tokens, further readings, stop tokens, and what would repeat a run.

    A dead text, which no token leads to, may only stop, and is counted in ``num_dead``, int32 (1,). ``history`` is
    int32 (slots, max_history), the tokens of each text. One program per sequence.
    """
    i = tl.program_id(0)
    number = tl.load(index + i).to(tl.int64)
    slot = slots + number * _COLUMNS
    table = tl.load(slot + _TABLE)
    if table != 0:
        record = table.to(_WORDS)
        row = bits + i.to(tl.int64) * num_words
        is_bound, budget = _budget_of(slot, record)
        num_readings = tl.load(slot + _NUM_READINGS).to(tl.int32)
        if num_readings == 0:
            tl.atomic_add(num_dead, 1)
        zero = tl.full((), 0, tl.int32)
        num_rounds = zero + 1
        while num_rounds > 0:
            can_stop = (num_readings == 0).to(tl.int32)
            k = zero
            while k < num_readings:
                reading = tl.load(slot + _READINGS + k)
                state = _frame_state_of(record, reading)
                if state >= 0:
                    can_stop = can_stop | _bytes(record, tl.load(record + _IS_COMPLETE), state, True)
                    if is_bound:
                        _add_frame_edges(row, record, state, budget, block)
                    elif (k > 0) | (num_rounds > 1):
                        # The first kernel has written that of the first reading.
                        _add_frame_row(row, record, state, block)
                if reading >= 0:
                    context, node = _within(reading)
                    _add_children(row, record, context, node, budget, block)
                k += 1
            is_early = tl.load(slot + _NUM_EARLY) > 0
            if (can_stop > 0) & is_early:
                is_early = _is_empty(row, num_words, block) == 0
            if (can_stop > 0) & (is_early == 0):
                lanes = tl.arange(0, _MAX_STOPS)
                stops = tl.load(slot + _STOPS + lanes, mask=lanes < tl.load(slot + _NUM_STOPS), other=2147483647)
                _add_bits(row, stops.to(tl.int32), stops < 32 * num_words)
            is_again = num_rounds > 1
            num_rounds = zero
            if is_again == 0:
                # Other threads of the program may have set the bits that are cleared here.
                tl.debug_barrier()
                if _clear_repeats(row, num_words, slot, history + number * max_history, block) > 0:
                    # Where nothing would be left, all stay: once more, without this.
                    num_rounds = 2 * _is_empty(row, num_words, block).to(tl.int32)


# Compiled once, though vLLM's logits may have more columns in memory than those of the warm-up.
@triton.jit(do_not_specialize=["stride"])
def apply_mask(logits, stride, num_tokens, bits, num_words, index, slots, block: tl.constexpr):
    """Set the logits of forbidden tokens to minus infinity; logits are any float (sequences, num_tokens), by rows.

    One program per sequence and ``block`` tokens, a multiple of 32.
    """
    i = tl.program_id(0)
    slot = slots + tl.load(index + i).to(tl.int64) * _COLUMNS
    if tl.load(slot + _TABLE) != 0:
        token = tl.program_id(1) * block + tl.arange(0, block)
        on = token < num_tokens
        words = tl.load(bits + i.to(tl.int64) * num_words + (token >> 5), mask=on, other=0)
        is_forbidden = ((words >> (token & 31)) & 1) == 0
        tl.store(logits + i.to(tl.int64) * stride + token, -float("inf"), mask=on & is_forbidden)


@triton.jit
def advance(tokens, num_sampled, index, slots, history, max_history):
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
    if (table != 0) & (tl.load(num_sampled + i) > 0) & (is_stop == 0):
        record = table.to(_WORDS)
        _, budget = _budget_of(slot, record)
        # Distinct, each in a lane; the lanes after them have none.
        found = tl.full((_LANES,), _NONE, tl.int64)
        num_readings = tl.load(slot + _NUM_READINGS).to(tl.int32)
        k = tl.full((), 0, tl.int32)
        while k < num_readings:
            reading = tl.load(slot + _READINGS + k)
            if reading >= 0:
                open_context, open_node = _within(reading)
                found = _insert(found, _step_in_word(record, open_context, open_node, token, budget))
            state = _frame_state_of(record, reading)
            if state >= 0:
                found = _insert(found, _step_in_frame(record, state, token, budget))
                way = tl.load(record + tl.load(record + _WAY_START) + state)
                last = tl.load(record + tl.load(record + _WAY_START) + state + 1)
                while way < last:
                    context = tl.load(record + tl.load(record + _WAY_CONTEXTS) + way)
                    node = tl.load(record + tl.load(record + _WAY_NODES) + way)
                    found = _insert(found, _step_in_word(record, context, node, token, budget))
                    way += 1
            k += 1
        # Ascending: a reading comes after all that are smaller.
        place = tl.sum((found[None, :] < found[:, None]).to(tl.int32), axis=1)
        is_one = found != _NONE
        # All threads have read the old ones.
        tl.debug_barrier()
        tl.store(slot + _READINGS + place, found, mask=is_one & (place < _MAX_READINGS))
        tl.store(slot + _NUM_READINGS, tl.minimum(tl.sum(is_one.to(tl.int64)), _MAX_READINGS))
        left = tl.load(slot + _LEFT)
        tl.store(slot + _LEFT, tl.where(left > 0, left - 1, left))
        tl.store(slot + _NUM_EARLY, tl.load(slot + _NUM_EARLY) - 1)
        length = tl.load(slot + _HISTORY_LENGTH)
        tl.store(history + number * max_history + length, token, mask=length < max_history)
        tl.store(slot + _HISTORY_LENGTH, tl.minimum(length + 1, max_history))
