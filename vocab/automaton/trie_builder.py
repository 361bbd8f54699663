"""The words of a list as a trie over the tokens that its tokenizer spells them with: one per (list, tokenizer), any N.

A spelling depends on what stands to the left (``vocab.automaton.spelling``), so the trie has a root for each kind of
left neighbour, and for each run of marks at the edges of entries.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array, group_starts
from vocab.arrays.kernels import kernel
from vocab.automaton.compiled_list import FORMAT_VERSION, NEVER, POSSESSIVE, CompiledList, Root
from vocab.automaton.spelling import MAX_OWN_WORK, SpelledForm, forms_of, tokenize_forms
from vocab.automaton.tokenizer import Speller
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.stored_words import StoredWords
from vocab.lists.wordlists import WordList
from vocab.text.forms import has_possessives

MAX_NODES: Final = 1 << 24
"""Of one trie: half a gigabyte. wordfreq's largest lists have two million."""

MAX_OWN_NODES: Final = 1 << 20
"""Of a trie of a request's own list: an artefact of 30 MB. The first 50,000 words of wordfreq's languages, or as many
as a body of 1 MiB holds, have 130,000 to 440,000 with a tokenizer of 49,152 tokens."""


def words_digest(word_list: WordList, speller: Speller, *, has_capitals: bool) -> str:
    """Hash what a trie is built from (SHA-256, hex): format, list, tokenizer, capitals."""
    facts = [FORMAT_VERSION, word_list.digest, speller.digest, has_capitals]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def build_words(word_list: WordList, speller: Speller, *, has_capitals: bool | None = None) -> CompiledList:
    """Compile a list for a tokenizer: tokenize its forms, and build their trie.

    ``has_capitals`` is that of the whole list, where this is the beginning of one; None where it is all of it.

    Raises:
        EmptyWordListError: The tokenizer can spell no word of the list.
        ListTooLargeError: The list needs more than ``MAX_NODES``; a request's own, more than ``MAX_OWN_NODES`` or
            ``MAX_OWN_WORK`` or ``MAX_ROOTS``.
    """
    if has_capitals is None:
        has_capitals = word_list.has_capitals
    kept, rows, dropped = _spell_list(word_list, speller)
    roots = list(dict.fromkeys(row.root for row in rows))
    max_nodes = MAX_OWN_NODES if word_list.source == "inline" else MAX_NODES
    trie = _build_trie(rows, {root: place for place, root in enumerate(roots)}, max_nodes)
    num_nodes = len(trie.parents)
    ranks = np.full((2, num_nodes), NEVER, dtype=np.int32)
    kinds = np.zeros(num_nodes, dtype=np.uint8)
    for mode, values in enumerate(([row.listed_rank for row in rows], [row.capital_rank for row in rows])):
        np.minimum.at(ranks[mode], trie.ends, np.asarray(values, dtype=np.int32))
    kinds[trie.ends] = [row.kind for row in rows]
    below = ranks.copy()
    spread_upwards(trie.parents, below)
    is_child = trie.parents >= 0
    children = np.flatnonzero(is_child).astype(np.int32)
    children = children[np.argsort(trie.parents[children], kind="stable")]
    return CompiledList(
        digest=words_digest(word_list, speller, has_capitals=has_capitals),
        tokenizer_digest=speller.facts.digest,
        num_tokens=len(speller.facts),
        listed=StoredWords.of(kept),
        has_capitals=has_capitals,
        dropped_words=dropped,
        roots=dict(zip(roots, np.flatnonzero(~is_child).tolist(), strict=True)),
        edge_start=group_starts(trie.parents[children], num_nodes),
        tokens=trie.tokens[children],
        children=children,
        ranks=ranks,
        ranks_below=below,
        kinds=kinds,
    )


def _spell_list(word_list: WordList, speller: Speller) -> tuple[WordList, list[SpelledForm], tuple[str, ...]]:
    """Tokenize a list: return it without words that have no tokens, the spelled forms, and the words dropped."""
    max_work = MAX_OWN_WORK if word_list.source == "inline" else None
    rows, lost = tokenize_forms(forms_of(word_list), speller, possessive=has_possessives(word_list), max_work=max_work)
    dropped = tuple(word for word in word_list.words if word in lost)
    if not dropped:
        return word_list, rows, ()
    if len(dropped) == len(word_list.words):
        raise EmptyWordListError(f"the model's tokenizer cannot spell any word of the list {word_list.lang!r}")
    # Later words move up, so that ranks count the words kept. Nothing is spelled again for it.
    kept = word_list.without(frozenset(dropped))
    forms = {form.text: form for form in forms_of(kept)}
    ranked = [
        row._replace(listed_rank=form.listed_rank, capital_rank=form.capital_rank)
        for row in rows
        if (form := forms.get(row.text)) is not None
    ]
    return kept, ranked + [row for row in rows if row.root == POSSESSIVE], dropped


class _Trie(NamedTuple):
    """``parents`` (-1 for a root) and ``tokens`` by node, int32, in preorder; the node at which each row ends."""

    parents: Int32Array
    tokens: Int32Array
    ends: Int32Array


def _build_trie(rows: Sequence[SpelledForm], places: Mapping[Root, int], max_nodes: int) -> _Trie:
    """Build the trie of spelled forms below their roots; raise ``ListTooLargeError`` beyond ``max_nodes``."""
    lengths = np.fromiter((1 + len(row.tokens) for row in rows), dtype=np.int64, count=len(rows))
    flat = np.fromiter(chain.from_iterable((places[row.root], *row.tokens) for row in rows), dtype=np.int32)
    ends = np.cumsum(lengths)
    # Big-endian bytes sort as the tokens do.
    spelled = flat.astype(">i4").tobytes()
    keys = [spelled[4 * start : 4 * end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]
    order = np.asarray(sorted(range(len(rows)), key=keys.__getitem__), dtype=np.int64)
    parents, tokens, nodes = insert_sorted(flat, ends - lengths, ends, order, max_nodes)
    if len(parents) > max_nodes:
        raise ListTooLargeError(
            f"The list needs more than {max_nodes} nodes of a trie: take fewer, shorter or more alike words."
        )
    return _Trie(parents, tokens, nodes)


@kernel
def insert_sorted(
    flat: Int32Array,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    max_nodes: int,
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Insert rows of tokens in sorted order: parents and tokens by node, and the node at which each row ends."""
    size = min(len(flat), max_nodes + 1)
    parents, tokens = np.empty(size, np.int32), np.empty(size, np.int32)
    path = np.empty(size, np.int32)
    nodes = np.zeros(len(order), np.int32)
    num_nodes, before = 0, -1
    for row in order:
        length, shared = ends[row] - starts[row], 0
        if before >= 0:
            most = min(length, ends[before] - starts[before])
            while shared < most and flat[starts[row] + shared] == flat[starts[before] + shared]:
                shared += 1
        for depth in range(shared, length):
            if num_nodes == size:
                return parents, tokens, nodes
            parents[num_nodes] = path[depth - 1] if depth else -1
            tokens[num_nodes] = flat[starts[row] + depth]
            path[depth] = num_nodes
            num_nodes += 1
        nodes[row] = path[length - 1]
        before = row
    return parents[:num_nodes].copy(), tokens[:num_nodes].copy(), nodes


@kernel
def spread_upwards(parents: Int32Array, below: Int32Array) -> None:
    """Lower each node's ranks to the smallest of its children; parents precede their children."""
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        if parent >= 0:
            for mode in range(len(below)):
                below[mode, parent] = min(below[mode, parent], below[mode, node])
