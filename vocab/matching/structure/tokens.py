"""The tokens of a tokenizer, as what stands around the strings of a JSON answer sees them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from vocab.arrays.byte_trie import ByteStrings, ByteTrie, group_starts
from vocab.automaton.tokenizer import TokenizerFacts

QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")

NO_TOKEN: Final = -1


@dataclass(slots=True)
class Closing:
    """A place in what tokens have after the quotation mark that closes a string.

    Attributes:
        following: The next places, by byte.
        tokens: Tokens that end here, each with the token of what stands before the mark, perhaps ``NO_TOKEN``.
    """

    following: dict[int, "Closing"] = field(default_factory=dict)
    tokens: list[tuple[int, int]] = field(default_factory=list)


class StructureTokens:
    """The tokens of a tokenizer by their bytes. Thread-safe.

    Attributes:
        closing: What follows the closing quotation mark of a string, in tokens with such a mark.
        marks: The tokens of what stands before the mark in such tokens.
    """

    def __init__(self, facts: TokenizerFacts) -> None:
        self.token_bytes = facts.token_bytes
        ids = [token for token, spelled in enumerate(facts.token_bytes) if spelled]
        self._trie = ByteTrie.of(ByteStrings.of(facts.token_bytes[token] for token in ids))
        order = self._trie.string_nodes.argsort(kind="stable")
        self._ids = [ids[index] for index in order.tolist()]
        self._id_starts = group_starts(self._trie.string_nodes, len(self._trie.labels))
        self._children: dict[int, dict[int, int]] = {}
        self._id_of: dict[bytes, int] = {}
        for token in reversed(ids):
            self._id_of[facts.token_bytes[token]] = token
        self.closing = self._find_closing(ids)
        self.marks = sorted({before for _, before in _all_tokens(self.closing)} - {NO_TOKEN})

    def id_of(self, spelled: bytes) -> int:
        """Return the token of a byte string; ``NO_TOKEN`` for none."""
        return self._id_of.get(spelled, NO_TOKEN)

    def children(self, at: int) -> dict[int, int]:
        """Return the children of a node of the trie of all tokens, by byte; 0 is its root."""
        found = self._children.get(at)
        if found is None:
            trie = self._trie
            nodes = trie.children[trie.child_start[at] : trie.child_start[at + 1]]
            found = self._children[at] = dict(zip(trie.labels[nodes].tolist(), nodes.tolist(), strict=True))
        return found

    def at(self, node: int) -> list[int]:
        """Return the tokens that are spelled by a node of the trie."""
        return self._ids[self._id_starts[node] : self._id_starts[node + 1]]

    def below(self, node: int) -> Iterator[int]:
        """Yield the tokens of a node of the trie and of all below it."""
        todo = [node]
        while todo:
            node = todo.pop()
            yield from self.at(node)
            todo += self.children(node).values()

    def _find_closing(self, ids: list[int]) -> Closing:
        """Split the tokens that may close a string at its quotation mark."""
        root = Closing()
        by_rest: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for token in ids:
            spelled = self.token_bytes[token]
            if QUOTE not in spelled or (at := _closing_quote(spelled)) < 0:
                continue
            before = self.id_of(spelled[:at]) if at else NO_TOKEN
            if before != NO_TOKEN or not at:
                by_rest[spelled[at + 1 :]].append((token, before))
        for rest, tokens in by_rest.items():
            place = root
            for byte in rest:
                place = place.following.setdefault(byte, Closing())
            place.tokens += tokens
        return root


def _all_tokens(place: Closing) -> Iterator[tuple[int, int]]:
    """Yield the tokens of a place and of all that follow it."""
    yield from place.tokens
    for following in place.following.values():
        yield from _all_tokens(following)


def _closing_quote(spelled: bytes) -> int:
    """Return where the first quotation mark of a token is that no backslash escapes; -1 for none."""
    at = 0
    while at < len(spelled):
        if spelled[at] == QUOTE:
            return at
        at += 2 if spelled[at] == _BACKSLASH else 1
    return -1
