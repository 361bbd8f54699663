"""The byte strings of a tokenizer's tokens as one trie. It knows nothing of words or texts."""

from dataclasses import dataclass

import numpy as np

from vocab.byte_trie import ByteTrie, Int32Array
from vocab.tokenizer import TokenizerFacts


@dataclass(frozen=True)
class TokenTrie:
    """The trie of a tokenizer's tokens.

    Attributes:
        trie: The trie of the distinct byte strings.
        token_start: int32 (nodes + 1,), where the tokens that end at a node begin in ``tokens``.
        tokens: int32, token ids; several may share a byte string.
        num_tokens: The size of the tokenizer's vocabulary, special tokens included.
    """

    trie: ByteTrie
    token_start: Int32Array
    tokens: Int32Array
    num_tokens: int

    @classmethod
    def of(cls, tokenizer: TokenizerFacts) -> "TokenTrie":
        ids = [i for i, token in enumerate(tokenizer.token_bytes) if token]
        ids.sort(key=lambda i: tokenizer.token_bytes[i])
        trie = ByteTrie.of_sorted([tokenizer.token_bytes[i] for i in ids])
        token_start = np.zeros(len(trie.parents) + 1, dtype=np.int32)
        np.cumsum(np.bincount(trie.string_nodes, minlength=len(trie.parents)), out=token_start[1:])
        order = np.argsort(trie.string_nodes, kind="stable")
        return cls(trie, token_start, np.asarray(ids, dtype=np.int32)[order], len(tokenizer))
