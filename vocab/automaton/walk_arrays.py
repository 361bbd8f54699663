"""The arrays of the product walk, as its compiled code sees them: named tuples of addresses (``vocab.arrays.kernels``).

The objects that own arrays made for a walk stand beside; whoever hands addresses over keeps the owner.
"""

from typing import NamedTuple

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.arrays.kernels import address_of
from vocab.automaton.readings import MAX_READINGS
from vocab.automaton.token_trie import TokenTrie
from vocab.text.text_automaton import TextAutomaton

Address = int


class TextAddresses(NamedTuple):
    """The text automaton's arrays; ``hub_states`` is -1 but for the nodes between words."""

    edge_start: Address
    edge_bytes: Address
    edge_targets: Address
    continuations: Address
    continuation_ranks: Address
    smallest_ranks: Address
    is_hub: Address
    hub_states: Address


class TrieAddresses(NamedTuple):
    """The token trie's arrays; ``child_labels`` lies beside ``children``, ``roots`` is the root's child by byte."""

    child_start: Address
    child_labels: Address
    children: Address
    roots: Address
    token_start: Address
    tokens: Address


class StateAddresses(NamedTuple):
    """Readings of each state, links, and the finished edges of the states that others link to."""

    reading_start: Address
    reading_nodes: Address
    reading_owed: Address
    links: Address
    link_ranks: Address
    hub_edge_start: Address
    hub_tokens: Address
    hub_targets: Address
    hub_ranks: Address


class StepAddresses(NamedTuple):
    """Where a walk writes: a step from a state to a trie node where tokens end, with the readings there.

    ``most_steps`` and ``most_readings`` are numbers: how many there is room for.
    """

    states: Address
    trie_nodes: Address
    ranks: Address
    set_start: Address
    set_nodes: Address
    set_owed: Address
    most_steps: int
    most_readings: int


class ScratchAddresses(NamedTuple):
    """Scratch space: two sets of readings, and a stack of (trie node, set) with room for ``depth``."""

    nodes: Address
    owed: Address
    behind_nodes: Address
    behind_owed: Address
    stack_trie: Address
    stack_count: Address
    stack_nodes: Address
    stack_owed: Address
    depth: int


def addresses_of_text(text: TextAutomaton, hub_states: Int32Array) -> TextAddresses:
    return TextAddresses(
        address_of(text.edge_start),
        address_of(text.edge_bytes, np.uint8),
        address_of(text.edge_targets),
        address_of(text.continuations),
        address_of(text.continuation_ranks),
        address_of(text.smallest_ranks),
        address_of(text.is_hub, np.uint8),
        address_of(hub_states),
    )


def addresses_of_trie(tokens: TokenTrie) -> TrieAddresses:
    return TrieAddresses(
        address_of(tokens.trie.child_start),
        address_of(tokens.child_labels, np.uint8),
        address_of(tokens.trie.children),
        address_of(tokens.roots),
        address_of(tokens.token_start),
        address_of(tokens.tokens),
    )


class Steps:
    """Room for the steps of one walk."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.states, self.trie_nodes, self.ranks = (np.empty(size, dtype=np.int32) for _ in range(3))
        self.set_start = np.zeros(size + 1, dtype=np.int32)
        num_readings = size + 2 * MAX_READINGS
        self.set_nodes, self.set_owed = (np.empty(num_readings, dtype=np.int32) for _ in range(2))
        arrays = (self.states, self.trie_nodes, self.ranks, self.set_start, self.set_nodes, self.set_owed)
        self.addresses = StepAddresses(*[*map(address_of, arrays), size, num_readings])


class Scratch:
    """Scratch space of a walk."""

    def __init__(self, depth: int) -> None:
        sets = [np.empty(MAX_READINGS, dtype=np.int32) for _ in range(4)]
        stack = [np.empty(depth, dtype=np.int32) for _ in range(2)]
        stack += [np.empty(depth * MAX_READINGS, dtype=np.int32) for _ in range(2)]
        self._arrays = [*sets, *stack]
        self.addresses = ScratchAddresses(*[*map(address_of, self._arrays), depth])
