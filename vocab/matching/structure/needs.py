"""How few tokens complete an answer from a place in a schema's graph."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from vocab.matching.structure.graph import Graph, Node
from vocab.matching.structure.tokens import StructureTokens

ENDLESS: Final = 1 << 40
"""Tokens, where no answer is reached."""


class Need(NamedTuple):
    """What it takes to come to the end of a rule.

    Attributes:
        num_tokens: The fewest tokens.
        depth: The rules that are open at once on that way.
    """

    num_tokens: int
    depth: int


_NEVER: Final = Need(ENDLESS, 0)
_NOTHING: Final = Need(0, 0)


def measure(graph: Graph, tokens: StructureTokens, of_strings: Sequence[int]) -> list[Need]:
    """Return the need of each node: what ends its rule from there.

    A token that lies across the end of a rule or string counts as two, so it is no fewer than what is needed.

    Args:
        of_strings: The fewest tokens of a string of each kind, with its quotation marks.
    """
    needs = [_NOTHING if node.is_end else _NEVER for node in graph.nodes]
    steps = [_token_targets(graph.nodes, number, tokens) for number in range(len(graph.nodes))]
    has_changed = True
    while has_changed:
        has_changed = False
        # A node's targets mostly follow it.
        for number in range(len(needs) - 1, -1, -1):
            node = graph.nodes[number]
            best = needs[number]
            for target in steps[number]:
                num_tokens, depth = needs[target]
                best = min(best, Need(num_tokens + 1, depth))
            for target in node.empty:
                best = min(best, needs[target])
            for kind, after in node.strings:
                num_tokens, depth = needs[after]
                best = min(best, Need(num_tokens + of_strings[kind], depth))
            for rule, after in node.calls:
                best = min(best, _both(needs[graph.starts[rule]], 1, needs[after]))
            for repeat in node.repeats:
                rule, least, _, after = graph.repeats[repeat]
                best = min(best, _both(needs[graph.starts[rule]], least, needs[after]))
            if best < needs[number]:
                needs[number] = best
                has_changed = True
    return needs


def _both(inner: Need, times: int, after: Need) -> Need:
    """Return the need of a rule so many times, and of what follows it."""
    if not times:
        return after
    return Need(min(inner.num_tokens * times + after.num_tokens, ENDLESS), max(inner.depth + 1, after.depth))


def _token_targets(nodes: list[Node], start: int, tokens: StructureTokens) -> list[int]:
    """Return the nodes of a rule that one token leads to from a node, over bytes alone."""
    found: dict[int, None] = {}
    todo = [(start, 0)]
    seen = set(todo)
    while todo:
        number, at = todo.pop()
        children = tokens.children(at)
        for first, last, target in nodes[number].bytes:
            for byte in range(first, last + 1) if last - first < len(children) else children:
                child = children.get(byte) if first <= byte <= last else None
                if child is None:
                    continue
                if tokens.at(child):
                    found[target] = None
                if (target, child) not in seen:
                    seen.add((target, child))
                    todo.append((target, child))
        if at:
            for target in nodes[number].empty:
                if (target, at) not in seen:
                    seen.add((target, at))
                    todo.append((target, at))
    return list(found)
