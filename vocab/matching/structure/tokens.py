"""The tokens of a tokenizer, as what stands around the strings of a JSON answer sees them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from vocab.arrays.kernels import group_starts
from vocab.automaton.token_trie import ByteTrie
from vocab.automaton.tokenizer import TokenizerFacts

QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")

NO_TOKEN: Final = -1


class Spelled(NamedTuple):
    """A token, as it is spelled from some place in it.

    Attributes:
        token: It.
        before: The token of what stands before that place; ``NO_TOKEN`` where it is the beginning.
    """

    token: int
    before: int


class Spellings:
    """A trie of what tokens spell; 0 is its root."""

    def __init__(self, spelled: Sequence[tuple[bytes, Spelled]]) -> None:
        self._trie = ByteTrie.of([spelling for spelling, _ in spelled])
        order = self._trie.string_nodes.argsort(kind="stable")
        self._tokens = [spelled[index][1] for index in order.tolist()]
        self._starts = group_starts(self._trie.string_nodes, len(self._trie.labels))
        self._children: dict[int, dict[int, int]] = {}

    def children(self, at: int) -> dict[int, int]:
        """Return the children of a node by byte."""
        found = self._children.get(at)
        if found is None:
            trie = self._trie
            nodes = trie.children[trie.child_start[at] : trie.child_start[at + 1]]
            found = self._children[at] = dict(zip(trie.labels[nodes].tolist(), nodes.tolist(), strict=True))
        return found

    def at(self, node: int) -> list[Spelled]:
        """Return the tokens that a node spells."""
        return self._tokens[self._starts[node] : self._starts[node + 1]]

    def below(self, node: int, spelled: bytes) -> Iterator[tuple[bytes, Spelled]]:
        """Yield the tokens of a node, which spells this, and of all below it, each with its spelling."""
        yield from ((spelled, token) for token in self.at(node))
        for byte, child in self.children(node).items():
            yield from self.below(child, spelled + bytes((byte,)))


class StructureTokens:
    """The tokens of a tokenizer by their bytes. Thread-safe.

    Attributes:
        spellings: All tokens.
        closings: Those that may close a string, from its quotation mark on.
        marks: The tokens of what stands before the mark in such tokens.
    """

    def __init__(self, facts: TokenizerFacts) -> None:
        ids = [(token, spelled) for token, spelled in enumerate(facts.token_bytes) if spelled]
        self._id_of = {spelled: token for token, spelled in reversed(ids)}
        self.spellings = Spellings([(spelled, Spelled(token, NO_TOKEN)) for token, spelled in ids])
        closings = []
        for token, spelled in ids:
            at = _closing_quote(spelled)
            before = self.id_of(spelled[:at]) if at > 0 else NO_TOKEN
            if at == 0 or before != NO_TOKEN:
                closings.append((spelled[at:], Spelled(token, before)))
        self.closings = Spellings(closings)
        self.marks = sorted({one.before for _, one in closings} - {NO_TOKEN})

    def id_of(self, spelled: bytes) -> int:
        """Return the token of a byte string; ``NO_TOKEN`` for none."""
        return self._id_of.get(spelled, NO_TOKEN)


def _closing_quote(spelled: bytes) -> int:
    """Return where the first quotation mark of a token is that no backslash escapes; -1 for none."""
    at = 0
    while at < len(spelled):
        if spelled[at] == QUOTE:
            return at
        at += 2 if spelled[at] == _BACKSLASH else 1
    return -1
