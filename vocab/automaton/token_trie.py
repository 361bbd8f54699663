"""The byte strings of a tokenizer's tokens as one trie. It knows nothing of words or texts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from vocab.arrays.byte_trie import ByteStrings, ByteTrie, Int32Array, Uint8Array, group_starts
from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError

_FORMAT_VERSION: Final = 1


@dataclass(frozen=True)
class TokenTrie:
    """The trie of a tokenizer's tokens.

    Attributes:
        trie: The trie of the distinct byte strings.
        token_start: int32 (nodes + 1,), where the tokens that end at a node begin in ``tokens``.
        tokens: int32, token ids; several may share a byte string.
        num_tokens: The size of the tokenizer's vocabulary, special tokens included.
        digest: The tokenizer's.
    """

    trie: ByteTrie
    token_start: Int32Array
    tokens: Int32Array
    num_tokens: int
    digest: str

    @classmethod
    def of(cls, tokenizer: TokenizerFacts) -> Self:
        ids = np.flatnonzero(np.fromiter(map(bool, tokenizer.token_bytes), dtype=bool)).astype(np.int32)
        trie = ByteTrie.of(ByteStrings.of(tokenizer.token_bytes[i] for i in ids))
        token_start = group_starts(trie.string_nodes, len(trie.parents))
        order = np.argsort(trie.string_nodes, kind="stable")
        made = cls(trie, token_start, ids[order], len(tokenizer), tokenizer.digest)
        # As if it came from a file: compiled code is made for arrays that may be written or that may not.
        return cls.from_bytes(made.to_bytes())

    def to_bytes(self) -> bytes:
        """The trie as a file, so that another process need not sort the tokens again."""
        trie = self.trie
        arrays: dict[str, Array] = {
            "parents": trie.parents,
            "labels": trie.labels,
            "child_start": trie.child_start,
            "children": trie.children,
            "string_nodes": trie.string_nodes,
            "token_start": self.token_start,
            "tokens": self.tokens,
        }
        metadata = {"format": _FORMAT_VERSION, "num_tokens": self.num_tokens, "digest": self.digest}
        return write_tensors(arrays, metadata)

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """The trie in such a file, as views of ``data``.

        Raises:
            ArtefactError: The file is damaged or of another version of this package.
        """
        arrays, metadata = read_tensors(data)
        if metadata.get("format") != _FORMAT_VERSION or "string_nodes" not in arrays:
            raise ArtefactError("this is no token trie that this version of the package knows")
        trie = ByteTrie(*(arrays[name] for name in ("parents", "labels", "child_start", "children", "string_nodes")))
        return cls(trie, arrays["token_start"], arrays["tokens"], metadata["num_tokens"], metadata["digest"])

    @cached_property
    def child_labels(self) -> Uint8Array:
        """uint8, beside ``trie.children``: the byte that leads to each child."""
        labels = self.trie.labels[self.trie.children]
        labels.flags.writeable = False
        return labels

    @cached_property
    def roots(self) -> Int32Array:
        """int32 (256,), the root's child by byte, or -1."""
        trie = self.trie
        roots = np.full(256, -1, dtype=np.int32)
        first = trie.children[trie.child_start[0] : trie.child_start[1]]
        roots[trie.labels[first]] = first
        roots.flags.writeable = False
        return roots

    @cached_property
    def lacking_bytes(self) -> bytes:
        """The bytes that are no token by themselves; many tokenizers lack those that UTF-8 has no use for."""
        num_tokens = np.diff(self.token_start)
        return bytes(byte for byte in range(256) if self.roots[byte] < 0 or not num_tokens[self.roots[byte]])
