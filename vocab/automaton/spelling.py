"""Which words of a list a tokenizer can spell. It knows bytes and the token trie, nothing of forms or texts."""

from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array, Uint8Array
from vocab.arrays.kernels import kernel, position_of
from vocab.automaton.token_trie import TokenTrie
from vocab.errors import EmptyWordListError
from vocab.lists.wordlists import WordList

_BLANK: Final = ord(" ")


def spellable(word_list: WordList, tokens: TokenTrie) -> tuple[WordList, tuple[str, ...]]:
    """The list without the words that no tokens spell, and those words.

    Raises:
        EmptyWordListError: No word is left.
    """
    lacking = tokens.lacking_bytes
    if not lacking:
        return word_list, ()
    # Words of bytes that are tokens themselves need no search.
    suspects = [
        word for word in word_list.words if len(spelled := word.encode()) != len(spelled.translate(None, lacking))
    ]
    dropped = tuple(word for word in suspects if not _can_spell(word.encode(), tokens))
    if not dropped:
        return word_list, ()
    if len(dropped) == len(word_list.words):
        raise EmptyWordListError(f"the model's tokenizer cannot spell any word of the list {word_list.lang!r}")
    return word_list.without(frozenset(dropped)), dropped


def _can_spell(spelled: bytes, tokens: TokenTrie) -> bool:
    trie = tokens.trie
    word = np.frombuffer(spelled, dtype=np.uint8)
    return bool(_reaches_end(word, trie.child_start, tokens.child_labels, trie.children, tokens.token_start))


@kernel
def _reaches_end(
    word: Uint8Array, child_start: Int32Array, child_labels: Uint8Array, children: Int32Array, token_start: Int32Array
) -> bool:
    """Whether tokens in a row spell the word; the first may bring the blank before the word along."""
    reached = np.zeros(len(word) + 1, np.uint8)
    reached[0] = 1
    # The first round starts behind the blank, the others at each place that some token ends at.
    for begin in range(-1, len(word)):
        node = 0
        if begin < 0:
            place = position_of(child_labels, child_start[0], child_start[1], _BLANK)
            node = children[place] if place >= 0 else -1
        elif not reached[begin]:
            continue
        for at in range(max(begin, 0), len(word)):
            place = position_of(child_labels, child_start[node], child_start[node + 1], word[at]) if node >= 0 else -1
            if place < 0:
                break
            node = children[place]
            if token_start[node] < token_start[node + 1]:
                reached[at + 1] = 1
    return bool(reached[len(word)])
