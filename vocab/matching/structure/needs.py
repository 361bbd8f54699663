"""How few tokens complete an answer from a place in a schema's graph."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from vocab.matching.structure.graph import Graph, Node
from vocab.matching.structure.tokens import Spellings, StructureTokens

ENDLESS: Final = 1 << 40
"""Tokens, where no answer is reached."""


class Need(NamedTuple):
    """What it takes to come to the end of a rule; of two the one with fewer tokens is less.

    Attributes:
        num_tokens: The fewest tokens.
        depth: The rules that are open at once on that way, besides this one.
    """

    num_tokens: int
    depth: int


_NEVER: Final = Need(ENDLESS, 0)


def after_rule(rule: Need, times: int, after: Need) -> Need:
    """Return the need of a rule so many times, and of what follows it."""
    if not times:
        return after
    return Need(min(rule.num_tokens * times + after.num_tokens, ENDLESS), max(rule.depth + 1, after.depth))


def measure(graph: Graph, tokens: StructureTokens, of_strings: Sequence[int]) -> list[Need]:
    """Return the need of each node: what ends its rule from there.

    A token that lies across the end of a rule or string counts as two, so it is no fewer than what is needed.

    Args:
        of_strings: The fewest tokens of a string of each kind, with its quotation marks.
    """
    nodes, starts = graph.nodes, graph.starts
    needs = [Need(0, 0) if node.is_end else _NEVER for node in nodes]
    steps = [_token_targets(nodes, number, tokens.spellings) if node.bytes else () for number, node in enumerate(nodes)]
    # Each after those that it leads to, but where rules come within themselves: so most needs are found at once.
    order = _order(graph)
    has_changed = True
    while has_changed:
        has_changed = False
        for number in order:
            node, best = nodes[number], needs[number]
            if steps[number]:
                best = min(best, _more(min([needs[target] for target in steps[number]]), 1))
            for target in node.empty:
                best = min(best, needs[target])
            for kind, after in node.strings:
                best = min(best, _more(needs[after], of_strings[kind]))
            for rule, after in node.calls:
                is_last = nodes[after].is_only_end
                best = min(best, needs[starts[rule]] if is_last else after_rule(needs[starts[rule]], 1, needs[after]))
            for repeat in node.repeats:
                rule, least, _, after = graph.repeats[repeat]
                best = min(best, after_rule(needs[starts[rule]], least, needs[after]))
            if best < needs[number]:
                needs[number] = best
                has_changed = True
    return needs


def _order(graph: Graph) -> list[int]:
    """Return the nodes that are reached, depth first, each after those that it leads to."""
    order: list[int] = []
    first = graph.starts[graph.root]
    seen, path = {first}, [(first, _targets(graph, first))]
    while path:
        number, targets = path[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            order.append(number)
            path.pop()
        else:
            seen.add(following)
            path.append((following, _targets(graph, following)))
    return order


def _targets(graph: Graph, number: int) -> Iterator[int]:
    """Yield the nodes that a node leads to, those of other rules too."""
    node = graph.nodes[number]
    yield from (target for _, _, target in node.bytes)
    yield from node.empty
    yield from (after for _, after in node.strings)
    for rule, after in node.calls:
        yield from (after, graph.starts[rule])
    for repeat in node.repeats:
        yield from (graph.repeats[repeat].after, graph.starts[graph.repeats[repeat].rule])


def _more(need: Need, num_tokens: int) -> Need:
    return Need(need.num_tokens + num_tokens, need.depth)


def _token_targets(nodes: list[Node], number: int, trie: Spellings) -> Sequence[int]:
    """Return the nodes of a rule that one token leads to from a node, over bytes alone."""
    found: list[int] = []
    at, node = 0, nodes[number]
    # Most of a schema is one byte after the other.
    while node.is_one_byte:
        byte, _, target = node.bytes[0]
        following = trie.children(at).get(byte)
        if following is None:
            return found
        at, node = following, nodes[target]
        if trie.at(at):
            found.append(target)
    todo, seen = [(node, at)], set[tuple[int, int]]()
    while todo:
        node, at = todo.pop()
        children = trie.children(at)
        reached = [
            (target, children[byte])
            for first, last, target in node.bytes
            for byte in range(first, last + 1)
            if byte in children
        ]
        found += [target for target, child in reached if trie.at(child)]
        if at:
            reached += [(target, at) for target in node.empty]
        for step in reached:
            if step not in seen:
                seen.add(step)
                todo.append((nodes[step[0]], step[1]))
    return list(dict.fromkeys(found))
