"""The product walk itself: from given states along all tokens, in compiled code over flat arrays.

It writes down where a walk leads as sets of readings and makes no states of them; ``vocab.automaton.product`` does.
The arrays come as named tuples of addresses (see ``vocab.arrays.kernels``), which the caller keeps alive.
"""

from vocab.arrays.kernels import int32_at, kernel, position_of, uint8_at
from vocab.automaton.readings import FULL, MAX_READINGS, add_reading, settle
from vocab.automaton.walk_arrays import (
    Address,
    ScratchAddresses,
    StateAddresses,
    StepAddresses,
    TextAddresses,
    TrieAddresses,
)


@kernel
def _set_at(sets: Address, index: int) -> Address:
    """Where the set of that index begins, of sets of ``MAX_READINGS`` places each."""
    return sets + 4 * MAX_READINGS * index


@kernel
def _add_with_continuations(
    text: TextAddresses, nodes: Address, owed: Address, count: int, node: int, rank: int
) -> int:
    """Adds a reading and all that its node may also be."""
    count = add_reading(int32_at(nodes), int32_at(owed), count, node, rank)
    continuations = int32_at(text.continuations)
    while continuations[node] >= 0:
        rank = max(rank, int32_at(text.continuation_ranks)[node])
        node = continuations[node]
        count = add_reading(int32_at(nodes), int32_at(owed), count, node, rank)
    return count


@kernel
def _split_link(state: int, text: TextAddresses, states: StateAddresses, work: ScratchAddresses) -> int:
    """Parts a state's readings into its link and the rest, which is left at the bottom of the stack; its size.

    One reading links to what its node may also be. Several link to the place between words that they share; where
    they differ, to one of the hubs behind those places, and walk the others themselves.
    """
    nodes, owed = int32_at(work.stack_nodes), int32_at(work.stack_owed)
    places, place_owed = int32_at(work.nodes), int32_at(work.owed)
    first, last = int32_at(states.reading_start)[state], int32_at(states.reading_start)[state + 1]
    count, num_places = 0, 0
    for i in range(first, last):
        node, rank = int32_at(states.reading_nodes)[i], int32_at(states.reading_owed)[i]
        if last - first > 1 and int32_at(text.hub_states)[node] >= 0:
            num_places = add_reading(places, place_owed, num_places, node, rank)
            continue
        count = add_reading(nodes, owed, count, node, rank)
        onward = int32_at(text.continuations)[node]
        if onward >= 0:
            onward_rank = max(rank, int32_at(text.continuation_ranks)[node])
            num_places = add_reading(places, place_owed, num_places, onward, onward_rank)
    if num_places > 1:
        behind, behind_owed = int32_at(work.behind_nodes), int32_at(work.behind_owed)
        num_behind = 0
        for i in range(num_places):
            num_behind = _add_with_continuations(
                text, work.behind_nodes, work.behind_owed, num_behind, places[i], place_owed[i]
            )
        if num_behind == FULL:
            return FULL
        num_places = 0
        for i in range(num_behind):
            if int32_at(text.is_hub)[behind[i]] and num_places == 0:
                num_places = add_reading(places, place_owed, 0, behind[i], behind_owed[i])
            else:
                count = add_reading(nodes, owed, count, behind[i], behind_owed[i])
    if count == FULL or num_places == FULL:
        return FULL
    if num_places == 1:
        int32_at(states.links)[state] = int32_at(text.hub_states)[places[0]]
        int32_at(states.link_ranks)[state] = place_owed[0]
    return count


@kernel
def _add_link_readings(
    state: int, token: int, states: StateAddresses, nodes: Address, owed: Address, count: int
) -> int:
    """Adds the readings that a token has through the state's link. What was paid there is owed again here."""
    floor = 0
    starts, links = int32_at(states.hub_edge_start), int32_at(states.links)
    while links[state] >= 0:
        floor = max(floor, int32_at(states.link_ranks)[state])
        state = links[state]
        edge = position_of(int32_at(states.hub_tokens), starts[state], starts[state + 1], token)
        if edge >= 0:
            target, rank = int32_at(states.hub_targets)[edge], int32_at(states.hub_ranks)[edge]
            reading_start, reading_owed = int32_at(states.reading_start), int32_at(states.reading_owed)
            for i in range(reading_start[target], reading_start[target + 1]):
                rest = reading_owed[i] if reading_owed[i] > 0 else rank
                node = int32_at(states.reading_nodes)[i]
                count = add_reading(int32_at(nodes), int32_at(owed), count, node, max(floor, rest))
            return count
    return count


@kernel
def _push_children(
    at: int, count: int, top: int, text: TextAddresses, trie: TrieAddresses, work: ScratchAddresses
) -> int:
    """Steps over every byte that follows both the trie node and the ``count`` readings in ``work``; the new top."""
    nodes, edge_start, child_start = int32_at(work.nodes), int32_at(text.edge_start), int32_at(trie.child_start)
    num_edges = 0
    for i in range(count):
        num_edges += edge_start[nodes[i] + 1] - edge_start[nodes[i]]
    # Whichever side has fewer bytes to offer leads.
    if at == 0 or num_edges < child_start[at + 1] - child_start[at]:
        return _push_by_edges(at, count, top, text, trie, work)
    children, labels = int32_at(trie.children), uint8_at(trie.child_labels)
    for place in range(child_start[at], child_start[at + 1]):
        top = _push(children[place], labels[place], 0, count, top, text, work)
        if top == FULL:
            break
    return top


@kernel
def _push_by_edges(
    at: int, count: int, top: int, text: TextAddresses, trie: TrieAddresses, work: ScratchAddresses
) -> int:
    nodes, edge_start, edge_bytes = int32_at(work.nodes), int32_at(text.edge_start), uint8_at(text.edge_bytes)
    child_start, child_labels = int32_at(trie.child_start), uint8_at(trie.child_labels)
    for lead in range(count):
        for edge in range(edge_start[nodes[lead]], edge_start[nodes[lead] + 1]):
            label = edge_bytes[edge]
            if at == 0:
                child = int32_at(trie.roots)[label]
            else:
                place = position_of(child_labels, child_start[at], child_start[at + 1], label)
                child = int32_at(trie.children)[place] if place >= 0 else -1
            if child < 0 or _has_edge(text, work.nodes, lead, label):
                continue
            top = _push(child, label, lead, count, top, text, work)
            if top == FULL:
                return FULL
    return top


@kernel
def _has_edge(text: TextAddresses, nodes: Address, count: int, label: int) -> bool:
    """Whether one of the first nodes has an edge of that byte."""
    edge_start = int32_at(text.edge_start)
    for i in range(count):
        node = int32_at(nodes)[i]
        if position_of(uint8_at(text.edge_bytes), edge_start[node], edge_start[node + 1], label) >= 0:
            return True
    return False


@kernel
def _push(child: int, label: int, lead: int, count: int, top: int, text: TextAddresses, work: ScratchAddresses) -> int:
    """Puts a trie node on the stack with the readings, from ``lead`` on, that the byte follows, if any; the new top."""
    if top == work.depth - 1:
        return FULL
    nodes, owed, edge_start = int32_at(work.nodes), int32_at(work.owed), int32_at(text.edge_start)
    target_nodes, target_owed = int32_at(_set_at(work.stack_nodes, top)), int32_at(_set_at(work.stack_owed, top))
    size = 0
    for i in range(lead, count):
        node = nodes[i]
        place = position_of(uint8_at(text.edge_bytes), edge_start[node], edge_start[node + 1], label)
        if place >= 0:
            size = add_reading(target_nodes, target_owed, size, int32_at(text.edge_targets)[place], owed[i])
    if size == FULL:
        return FULL
    if size > 0:
        int32_at(work.stack_trie)[top] = child
        int32_at(work.stack_count)[top] = size
        top += 1
    return top


@kernel
def _write_step(
    state: int,
    top: int,
    num_steps: int,
    num_readings: int,
    text: TextAddresses,
    trie: TrieAddresses,
    states: StateAddresses,
    steps: StepAddresses,
    work: ScratchAddresses,
) -> int:
    """Writes the step from a state to the trie node on top of the stack; how many readings it has."""
    at, size = int32_at(work.stack_trie)[top], int32_at(work.stack_count)[top]
    from_nodes, from_owed = int32_at(_set_at(work.stack_nodes, top)), int32_at(_set_at(work.stack_owed, top))
    nodes, owed = steps.set_nodes + 4 * num_readings, steps.set_owed + 4 * num_readings
    for i in range(size):
        int32_at(nodes)[i] = from_nodes[i]
        int32_at(owed)[i] = from_owed[i]
    if int32_at(states.links)[state] >= 0:
        token = int32_at(trie.tokens)[int32_at(trie.token_start)[at]]
        size = _add_link_readings(state, token, states, nodes, owed, size)
        if size == FULL:
            return FULL
    rank = settle(int32_at(nodes), int32_at(owed), size, int32_at(text.smallest_ranks))
    int32_at(steps.ranks)[num_steps] = rank
    int32_at(steps.states)[num_steps] = state
    int32_at(steps.trie_nodes)[num_steps] = at
    int32_at(steps.set_start)[num_steps + 1] = num_readings + size
    return int(size)


@kernel
def walk_states(
    first_state: int,
    last_state: int,
    text: TextAddresses,
    trie: TrieAddresses,
    states: StateAddresses,
    steps: StepAddresses,
    work: ScratchAddresses,
) -> tuple[int, int, int]:
    """Writes the steps from as many of the states as ``steps`` has room for.

    Returns:
        The first state not walked (``FULL`` where a set of readings outgrew its place), the number of steps, and the
        number of readings written.
    """
    num_steps, num_readings = 0, 0
    token_start, child_start = int32_at(trie.token_start), int32_at(trie.child_start)
    for state in range(first_state, last_state):
        steps_before, readings_before = num_steps, num_readings
        size = _split_link(state, text, states, work)
        if size == FULL:
            return FULL, 0, 0
        int32_at(work.stack_trie)[0] = 0
        int32_at(work.stack_count)[0] = size
        top = 1
        while top > 0:
            top -= 1
            at, size = int32_at(work.stack_trie)[top], int32_at(work.stack_count)[top]
            if token_start[at] < token_start[at + 1]:
                if num_steps == steps.most_steps or num_readings + 2 * MAX_READINGS > steps.most_readings:
                    return state, steps_before, readings_before
                written = _write_step(state, top, num_steps, num_readings, text, trie, states, steps, work)
                if written == FULL:
                    return FULL, 0, 0
                num_steps += 1
                num_readings += written
            if child_start[at] == child_start[at + 1]:
                continue
            count = 0
            stack_nodes, stack_owed = int32_at(_set_at(work.stack_nodes, top)), int32_at(_set_at(work.stack_owed, top))
            for i in range(size):
                if at == 0:
                    count = add_reading(int32_at(work.nodes), int32_at(work.owed), count, stack_nodes[i], stack_owed[i])
                else:
                    count = _add_with_continuations(text, work.nodes, work.owed, count, stack_nodes[i], stack_owed[i])
            top = _push_children(at, count, top, text, trie, work) if count != FULL else FULL
            if top == FULL:
                return FULL, 0, 0
    return last_state, num_steps, num_readings
