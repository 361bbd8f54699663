"""The words of a list as a trie over the tokens that its tokenizer spells them with: one per (list, tokenizer), any N.

A model has seen words only as its tokenizer cuts them, so only that spelling of a word is allowed. It depends on what
stands to the left: after a blank most tokenizers put the blank into the word's first token, and some draw a mark in.
So the trie has a root for each kind of left neighbour. Marks at the edges of an entry ("Mr.", "l'") may share tokens
with the marks of the text around them; they are the frame's (``vocab.automaton.frame``), and only what lies between
them is in the trie, below a root of its own.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Int32Array, group_starts
from vocab.arrays.kernels import kernel
from vocab.automaton.compiled_list import (
    ELISION,
    FORMAT_VERSION,
    NEVER,
    NO_KIND,
    POSSESSABLE,
    POSSESSIVE,
    WORD,
    CompiledList,
    Root,
)
from vocab.automaton.tokenizer import LEADS, Speller
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.stored_words import StoredWords
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, BLANK
from vocab.text.forms import Capitals, follows_elision, has_apostrophe, has_possessives, is_elision, spellings

_ELISION_MARKS: Final = tuple(APOSTROPHES)
"""An apostrophe that a word may follow is the end of an elision."""

MAX_NODES: Final = 1 << 24
"""Of one trie: half a gigabyte. wordfreq's largest lists have two million."""

MAX_OWN_NODES: Final = 1 << 20
"""Of a trie of a request's own list: an artefact of 30 MB. The first 50,000 words of wordfreq's languages, or as many
as a body of 1 MiB holds, have 130,000 to 440,000 with a tokenizer of 49,152 tokens."""

MAX_OWN_WORK: Final = 3_800_000
"""Characters that the tokenizer is asked to spell of a request's own list, after everything that may stand before
them, and tokens that it answers: 4 s of one core. The same languages need up to 3.1 million."""

MAX_ROOTS: Final = 512
"""Several for each run of marks with which entries begin or end. The frame looks at each in each of its states, and in
each mask of one."""


_Edges: TypeAlias = tuple[str, str, str]
"""The head, the core and the tail of an entry."""

_Spell: TypeAlias = Callable[[Sequence[str]], list[list[int] | None]]


class _Form(NamedTuple):
    """A way to write a word: its ranks as listed and with a capital allowed, what it leaves, and what it follows."""

    text: str
    listed_rank: int
    capital_rank: int
    kind: int
    follows_elision: bool


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


class SpelledForm(NamedTuple):
    """A word form below one root: its text, tokens and ranks, and the kind of end that it leaves."""

    text: str
    root: Root
    tokens: tuple[int, ...]
    listed_rank: int
    capital_rank: int
    kind: int


def tokenize_forms(
    forms: Sequence[_Form], speller: Speller, *, possessive: bool, max_work: int | None = None
) -> tuple[list[SpelledForm], set[str]]:
    """Tokenize word forms after every lead; also return the texts that cannot be spelled.

    ``max_work`` is that of a request's own words, ``MAX_OWN_WORK``.

    Raises:
        ListTooLargeError: They would need more, or begin and end with more runs of marks than ``MAX_ROOTS``.
    """
    work = 0

    def spell(texts: Sequence[str]) -> list[list[int] | None]:
        nonlocal work
        work += sum(map(len, texts))
        check(work)
        rows = speller.spell(texts)
        work += sum(len(row) for row in rows if row is not None)
        check(work)
        return rows

    def check(work: int) -> None:
        if max_work is not None and work > max_work:
            raise ListTooLargeError(
                "The list takes more work than a request's own list may: its words, in every spelling and after "
                f"every mark, have more than {max_work} characters and tokens. Send fewer or shorter words."
            )

    # Nearly all are spelled by themselves and after a blank: some lists are refused before anything is spelled.
    check(2 * sum(len(form.text) for form in forms))
    cut = [_edges(form.text) for form in forms]
    if max_work is not None and len({(head, tail) for head, _, tail in cut}) > MAX_ROOTS:
        raise too_many_runs()
    drawn_heads = _drawn_heads(cut, speller, spell)
    forms = [*forms, *(forms[i] for i, _ in drawn_heads)]
    cut += [edges for _, edges in drawn_heads]
    groups = [
        Root("", head, tail, form.kind if head or tail else NO_KIND)
        for form, (head, _, tail) in zip(forms, cut, strict=True)
    ]
    # What may stand directly after an entry's core, in the word's last token: its own tail, or else an English 's.
    endings = {
        i: (tail,) if tail else speller.drawn_possessives(form.text)
        for i, (form, (_, _, tail)) in enumerate(zip(forms, cut, strict=True))
        if tail or form.kind == POSSESSABLE
    }
    rows: list[SpelledForm] = []
    found: set[str] = set()

    def add(i: int, root: Root, tokens: Sequence[int] | None, kind: int) -> None:
        if tokens is None:
            return
        form, row = forms[i], tuple(tokens)
        found.add(form.text)
        if root.lead not in _ELISION_MARKS:
            rows.append(SpelledForm(form.text, root, row, form.listed_rank, form.capital_rank, kind))
        if form.follows_elision and not root.head and (not root.lead or root.lead in _ELISION_MARKS):
            elided = root._replace(is_elided=True)
            rows.append(SpelledForm(form.text, elided, row, form.listed_rank, form.capital_rank, kind))

    def spell_after(lead: str, places: Sequence[int]) -> list[list[int] | None]:
        """Spell the cores of entries; add those whose ending the tokenizer draws into their last token ("qu'")."""
        spelled = spell([lead + cut[i][1] for i in places])
        longer = [(i, row, end) for i, row in zip(places, spelled, strict=True) if i in endings for end in endings[i]]
        wholes = spell([lead + cut[i][1] + end for i, _, end in longer])
        for (i, row, _), whole in zip(longer, wholes, strict=True):
            head, tail, kind = groups[i].head, groups[i].tail, forms[i].kind if groups[i].tail else WORD
            rest = None if row is None or whole is None or whole[: len(row)] != row else tuple(whole[len(row) :])
            # A tail that is spelled by itself is the frame's, and a possessive has a root.
            is_apart = rest is not None if tail else row is None or rest in speller.possessives
            if not is_apart:
                add(i, Root(lead, head, "", kind if head else NO_KIND), whole, kind)
        return spelled

    bare = spell_after("", range(len(forms)))
    has_no_head = [i for i, root in enumerate(groups) if not root.head]
    # After a blank they have about as many tokens as alone: most lists that are too large are refused here.
    check(work + sum(len(cut[i][1]) + len(bare[i] or ()) for i in has_no_head))
    blank = dict(zip(has_no_head, spell_after(BLANK, has_no_head), strict=True))
    for i, root in enumerate(groups):
        add(i, root, bare[i], forms[i].kind)
        if i in blank:
            add(i, root._replace(lead=BLANK), blank[i], forms[i].kind)
    letters = {cut[i][1][0] for i in has_no_head}
    lone = {i for i in has_no_head if (row := bare[i]) and row[0] in speller.lone_tokens} if speller.lone_tokens else ()
    for lead in LEADS:
        beginnings = tuple(speller.leads.get(lead, ()))
        drawn_letters = {letter for letter in letters if letter.encode().startswith(beginnings)}
        if not drawn_letters and not lone:
            continue
        places = [i for i in has_no_head if forms[i].follows_elision] if lead in _ELISION_MARKS else has_no_head
        drawn = [i for i in places if cut[i][1][0] in drawn_letters or i in lone]
        # Only what is spelled differently there: all else follows the mark as it follows any other.
        alone = speller.spell([lead])[0]
        for i, tokens in zip(drawn, spell_after(lead, drawn), strict=True):
            apart = bare[i]
            if apart is None or alone is None or tokens != [*alone, *apart]:
                add(i, groups[i]._replace(lead=lead), tokens, forms[i].kind)
    lost = {form.text for form in forms if form.text not in found}
    if possessive:
        rows += [SpelledForm("", POSSESSIVE, tokens, 0, 0, WORD) for tokens in speller.possessives]
    return rows, lost


def too_many_runs() -> ListTooLargeError:
    """Make the error of entries with too many different runs of marks at their edges."""
    return ListTooLargeError(
        "The entries begin and end with too many different runs of marks: leave out entries such as '(a' and 'b?!', or "
        "the marks at their edges."
    )


def forms_of(word_list: WordList) -> list[_Form]:
    """Return every form of a list with its ranks and kind, each text once; possessives have a root of their own."""
    capitals = Capitals(word_list.language)
    listed: dict[str, int] = {}
    capital: dict[str, int] = {}
    # The order of the words is the order of the ranks, so the first rank of a text is its best.
    for rank, word in word_list.ranked():
        for text in spellings(word, has_possessive=False):
            listed.setdefault(text, rank)
            if (with_capital := capitals.of(text)) is not None:
                capital.setdefault(with_capital, rank)
    language, possessable, never = word_list.language, has_possessives(word_list), int(NEVER)
    forms = []
    for text in dict.fromkeys((*listed, *capital)):
        rank = listed.get(text, never)
        if is_elision(text, language):
            kind = ELISION
        else:
            kind = POSSESSABLE if possessable and not has_apostrophe(text) else WORD
        follows = follows_elision(text, language)
        forms.append(_Form(text, rank, min(rank, capital.get(text, never)), kind, follows))
    return forms


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


def _edges(text: str) -> _Edges:
    """Split an entry into head, core and tail (marks, word, marks); without a letter or digit it is all core."""
    if text.isalpha():
        return "", text, ""
    first = next((place for place, char in enumerate(text) if unicodedata.category(char)[0] in "LMN"), None)
    if first is None:
        return "", text, ""
    last = len(text)
    while unicodedata.category(text[last - 1])[0] not in "LMN":
        last -= 1
    return text[:first], text[first:last], text[last:]


def _drawn_heads(cut: Sequence[_Edges], speller: Speller, spell: _Spell) -> list[tuple[int, _Edges]]:
    """Find entries whose core takes the end of their head into its first token (".net"); return them cut so."""
    headed = [i for i, (head, _, _) in enumerate(cut) if head]
    begun: dict[int, int] = {}
    for lead in ("", BLANK):
        wholes = spell([lead + cut[i][0] + cut[i][1] for i in headed])
        for i, alone, whole in zip(headed, spell([cut[i][1] for i in headed]), wholes, strict=True):
            if whole is not None and (alone is None or whole[-len(alone) :] != alone):
                head = cut[i][0]
                ends = set(accumulate(len(speller.facts.token_bytes[token]) for token in whole))
                starts = (k for k in range(len(head) - 1, 0, -1) if len((lead + head[:k]).encode()) in ends)
                begun[i] = min(begun.get(i, len(head)), next(starts, 0))
    return [(i, (cut[i][0][:k], cut[i][0][k:] + cut[i][1], cut[i][2])) for i, k in begun.items()]


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
