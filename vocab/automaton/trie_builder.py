"""The words of a list as a trie over the tokens that its tokenizer spells them with: one per (list, tokenizer), any N.

A model has seen words only as its tokenizer cuts them, so only that spelling of a word is allowed. It depends on what
stands to the left: after a blank most tokenizers put the blank into the word's first token, and some draw a mark in. So
the trie has a root for each kind of left neighbour, and for each run of marks at the edges of entries ("Mr.", "l'"):
these marks may share tokens with the marks of the text around them, so they are the frame's
(``vocab.automaton.frame``), and only the core between them is spelled here.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array, kernel
from vocab.automaton.compiled_list import (
    ELISION,
    FORMAT_VERSION,
    NEVER,
    NO_KIND,
    POSSESSABLE,
    POSSESSIVE,
    WORD,
    CompiledList,
    ListedWords,
    Root,
)
from vocab.automaton.tokenizer import LEADS, Speller
from vocab.errors import EmptyWordListError, ListTooLargeError
from vocab.lists.wordlists import OWN_SOURCES, WordList
from vocab.marks import APOSTROPHES, BLANK
from vocab.text.forms import POSSESSIVE_LANGUAGES, Capitals, follows_elision, is_elision, spellings, takes_possessive

MAX_NODES: Final = 1 << 24
"""Of one trie: half a gigabyte. A list of 700,000 words has two million."""

MAX_OWN_NODES: Final = 1 << 20
"""Of a trie of a request's own list: an artefact of 30 MB. The first 50,000 words of wordfreq's languages, or as many
as a body of 1 MiB holds, have 130,000 to 440,000 with a tokenizer of 49,152 tokens."""

_ELISION_MARKS: Final = tuple(APOSTROPHES)
"""An apostrophe that a word may follow is the end of an elision."""

MAX_OWN_WORK: Final = 3_800_000
"""Characters that the tokenizer is asked to spell of a request's own list, after everything that may stand before
them, and tokens that it answers: 4 s of one core. The first 50,000 words of wordfreq's languages need up to 3.1
million."""

MAX_ROOTS: Final = 512
"""Several for each run of marks with which entries begin or end. The frame looks at each in each of its states, and in
each mask of one."""

TOO_MANY_RUNS: Final = (
    "The entries begin and end with too many different runs of marks: leave out entries such as '(a' and 'b?!', or "
    "the marks at their edges."
)

_Edges: TypeAlias = tuple[str, str, str]
"""The head, the core and the tail of an entry."""

_Tokens: TypeAlias = list[int] | None
_Arrays: TypeAlias = tuple[Int32Array, Int32Array, Int32Array]


class Form(NamedTuple):
    """A way to write a word: its ranks as listed and with a capital allowed, what it leaves, and what it follows."""

    text: str
    listed_rank: int
    capital_rank: int
    kind: int
    follows_elision: bool = False


_POSSESSIVE_FORM: Final = Form("", 0, 0, WORD)


class SpelledForm(NamedTuple):
    """A word form below one root, its tokens there, and the kind of end that it leaves."""

    form: Form
    root: Root
    tokens: tuple[int, ...]
    kind: int


def words_digest(word_list: WordList, speller: Speller, *, has_capitals: bool) -> str:
    """Hash what a trie is built from (SHA-256, hex): format, list, whether it is one's own, tokenizer, capitals."""
    facts = [FORMAT_VERSION, word_list.digest, word_list.source in OWN_SOURCES, speller.digest, has_capitals]
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
    parents, labels, ends = _build_trie(rows, {root: place for place, root in enumerate(roots)}, max_nodes)
    ranks = np.full((2, len(parents)), NEVER, dtype=np.int32)
    kinds = np.zeros(len(parents), dtype=np.uint8)
    for mode, values in enumerate(([row.form.listed_rank for row in rows], [row.form.capital_rank for row in rows])):
        np.minimum.at(ranks[mode], ends, np.asarray(values, dtype=np.int32))
    kinds[ends] = [row.kind for row in rows]
    edge_start, tokens, children = edges_of(parents, labels)
    below = ranks.copy()
    lower_ranks(below, ranks[:, :0], edge_start, children)
    return CompiledList(
        digest=words_digest(word_list, speller, has_capitals=has_capitals),
        tokenizer_digest=speller.facts.digest,
        num_tokens=len(speller.facts),
        listed=ListedWords.of(kept),
        has_capitals=has_capitals,
        dropped_words=dropped,
        roots=dict(zip(roots, np.flatnonzero(parents < 0).tolist(), strict=True)),
        edge_start=edge_start,
        tokens=tokens,
        children=children,
        ranks=ranks,
        ranks_below=below,
        kinds=kinds,
    )


def _spell_list(word_list: WordList, speller: Speller) -> tuple[WordList, list[SpelledForm], tuple[str, ...]]:
    """Spell a list: return it without words that have no tokens, the spelled forms, and the words dropped."""
    rows, lost = spell_forms(word_list, speller, is_bounded=word_list.source == "inline")
    if word_list.language in POSSESSIVE_LANGUAGES:
        rows += [SpelledForm(_POSSESSIVE_FORM, POSSESSIVE, tokens, WORD) for tokens in speller.possessives]
    dropped = tuple(word for word in word_list.words if word in lost)
    if not dropped:
        return word_list, rows, ()
    if len(dropped) == len(word_list.words):
        raise EmptyWordListError(f"the model's tokenizer cannot spell any word of the list {word_list.lang!r}")
    # Later words move up, so that ranks count the words kept. Nothing is spelled again for it.
    kept = word_list.without(frozenset(dropped))
    forms = {form.text: form for form in (*forms_of(kept), _POSSESSIVE_FORM)}
    return kept, [row._replace(form=forms[row.form.text]) for row in rows if row.form.text in forms], dropped


def _build_trie(rows: Sequence[SpelledForm], places: Mapping[Root, int], max_nodes: int) -> _Arrays:
    """Build the trie of spelled forms below their roots, whose parent is -1; raise beyond ``max_nodes``."""
    lengths = np.fromiter((1 + len(row.tokens) for row in rows), dtype=np.int64, count=len(rows))
    flat = np.fromiter(chain.from_iterable((places[row.root], *row.tokens) for row in rows), dtype=np.int32)
    ends = np.cumsum(lengths)
    # Big-endian bytes sort as the tokens do.
    spelled = flat.astype(">i4").tobytes()
    keys = [spelled[4 * start : 4 * end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]
    order = np.asarray(sorted(range(len(rows)), key=keys.__getitem__), dtype=np.int64)
    trie = insert_sorted(flat, ends - lengths, ends, order, max_nodes)
    if len(trie[0]) > max_nodes:
        raise ListTooLargeError(
            f"The list needs more than {max_nodes} nodes of a trie: take fewer, shorter or more alike words."
        )
    return trie


def spell_forms(word_list: WordList, speller: Speller, *, is_bounded: bool) -> tuple[list[SpelledForm], set[str]]:
    """Spell all forms of a list after every lead; also return the texts that cannot be spelled.

    Raises:
        ListTooLargeError: A list that is bounded needs more than ``MAX_OWN_WORK`` or ``MAX_ROOTS``.
    """
    forms = forms_of(word_list)
    spelling = _Spelling(forms, speller, MAX_OWN_WORK if is_bounded else None)
    spelling.spell()
    return spelling.rows, {form.text for form in forms if form.text not in spelling.found}


class _Spelling:
    """The spellings of word forms: ``rows``, and the texts that were ``found`` to have one."""

    def __init__(self, forms: Sequence[Form], speller: Speller, max_work: int | None) -> None:
        self._speller, self._max_work, self._work = speller, max_work, 0
        self.rows: list[SpelledForm] = []
        self.found: set[str] = set()
        # Nearly all are spelled by themselves and after a blank: some lists are refused before anything is spelled.
        self._check(2 * sum(len(form.text) for form in forms))
        cut = [_edges(form.text) for form in forms]
        if max_work is not None and len({(head, tail) for head, _, tail in cut}) > MAX_ROOTS:
            raise ListTooLargeError(TOO_MANY_RUNS)
        drawn = self._drawn_heads(cut)
        self._forms = [*forms, *(forms[i] for i, _ in drawn)]
        cut += [edges for _, edges in drawn]
        self._cores = [core for _, core, _ in cut]
        self._roots = [
            Root("", head, tail, form.kind if head or tail else NO_KIND)
            for form, (head, _, tail) in zip(self._forms, cut, strict=True)
        ]
        self._has_no_head = [i for i, (head, _, _) in enumerate(cut) if not head]
        # What may stand directly after an entry's core, in the word's last token: its own tail, or else an English 's.
        self._endings = {
            i: (tail,) if tail else speller.drawn_possessives(form.text)
            for i, (form, (_, _, tail)) in enumerate(zip(self._forms, cut, strict=True))
            if tail or form.kind == POSSESSABLE
        }

    def spell(self) -> None:
        """Spell all forms by themselves, after a blank, and after the marks that share tokens with them."""
        bare = self._spell_after("", range(len(self._forms)))
        # After a blank they have about as many tokens as alone: most lists that are too large are refused here.
        self._check(self._work + sum(len(self._cores[i]) + len(bare[i] or ()) for i in self._has_no_head))
        blank = dict(zip(self._has_no_head, self._spell_after(BLANK, self._has_no_head), strict=True))
        for i, root in enumerate(self._roots):
            self._add(i, root, bare[i], self._forms[i].kind)
            if i in blank:
                self._add(i, root._replace(lead=BLANK), blank[i], self._forms[i].kind)
        self._spell_after_marks(bare)

    def _spell_after_marks(self, bare: Sequence[_Tokens]) -> None:
        """Add what is spelled differently directly after a mark: all else follows it as it follows any other."""
        speller = self._speller
        letters = {self._cores[i][0] for i in self._has_no_head}
        lone: Iterable[int] = ()
        if speller.lone_tokens:
            lone = {i for i in self._has_no_head if (row := bare[i]) and row[0] in speller.lone_tokens}
        for lead in LEADS:
            beginnings = tuple(speller.leads.get(lead, ()))
            drawn_letters = {letter for letter in letters if letter.encode().startswith(beginnings)}
            if not drawn_letters and not lone:
                continue
            after = [i for i in self._has_no_head if self._forms[i].follows_elision or lead not in _ELISION_MARKS]
            drawn = [i for i in after if self._cores[i][0] in drawn_letters or i in lone]
            alone = speller.spell([lead])[0]
            for i, tokens in zip(drawn, self._spell_after(lead, drawn), strict=True):
                apart = bare[i]
                if apart is None or alone is None or tokens != [*alone, *apart]:
                    self._add(i, self._roots[i]._replace(lead=lead), tokens, self._forms[i].kind)

    def _spell_after(self, lead: str, places: Sequence[int]) -> list[_Tokens]:
        """Spell the cores of entries; add those whose ending the tokenizer draws into their last token ("qu'")."""
        spelled = self._ask([lead + self._cores[i] for i in places])
        longer = [(i, row, end) for i, row in zip(places, spelled, strict=True) for end in self._endings.get(i, ())]
        wholes = self._ask([lead + self._cores[i] + end for i, _, end in longer])
        for (i, row, _), whole in zip(longer, wholes, strict=True):
            _, head, tail, *_ = self._roots[i]
            kind = self._forms[i].kind if tail else WORD
            rest = None if row is None or whole is None or whole[: len(row)] != row else tuple(whole[len(row) :])
            # A tail that is spelled by itself is the frame's, and a possessive has a root.
            is_apart = rest is not None if tail else row is None or rest in self._speller.possessives
            if not is_apart:
                self._add(i, Root(lead, head, "", kind if head else NO_KIND, is_possessive=not tail), whole, kind)
        return spelled

    def _add(self, i: int, root: Root, tokens: _Tokens, kind: int) -> None:
        """Add how a form is spelled below a root, and after an elision; None where it is not."""
        if tokens is None:
            return
        form, row = self._forms[i], tuple(tokens)
        self.found.add(form.text)
        if root.lead not in _ELISION_MARKS:
            self.rows.append(SpelledForm(form, root, row, kind))
        if form.follows_elision and not root.head and (not root.lead or root.lead in _ELISION_MARKS):
            self.rows.append(SpelledForm(form, root._replace(is_elided=True), row, kind))

    def _drawn_heads(self, cut: Sequence[_Edges]) -> list[tuple[int, _Edges]]:
        """Find entries whose core takes the end of their head into its first token (".net"); return them cut so."""
        headed = [i for i, (head, _, _) in enumerate(cut) if head]
        begun: dict[int, int] = {}
        for lead in ("", BLANK):
            wholes = self._ask([lead + cut[i][0] + cut[i][1] for i in headed])
            for i, alone, whole in zip(headed, self._ask([cut[i][1] for i in headed]), wholes, strict=True):
                if whole is not None and (alone is None or whole[-len(alone) :] != alone):
                    head = cut[i][0]
                    ends = set(accumulate(len(self._speller.facts.token_bytes[token]) for token in whole))
                    starts = (k for k in range(len(head) - 1, 0, -1) if len((lead + head[:k]).encode()) in ends)
                    begun[i] = min(begun.get(i, len(head)), next(starts, 0))
        return [(i, (cut[i][0][:k], cut[i][0][k:] + cut[i][1], cut[i][2])) for i, k in begun.items()]

    def _ask(self, texts: Sequence[str]) -> list[_Tokens]:
        """Spell texts, and count the work."""
        self._check(self._work + sum(map(len, texts)))
        rows = self._speller.spell(texts)
        self._work += sum(map(len, texts)) + sum(len(row) for row in rows if row is not None)
        self._check(self._work)
        return rows

    def _check(self, work: int) -> None:
        if self._max_work is not None and work > self._max_work:
            raise ListTooLargeError(
                "The list takes more work than a request's own list may: its words, in every spelling and after "
                f"every mark, have more than {self._max_work} characters and tokens. Send fewer or shorter words."
            )


def forms_of(word_list: WordList) -> list[Form]:
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
    language, never = word_list.language, int(NEVER)
    forms = []
    for text in dict.fromkeys((*listed, *capital)):
        rank = listed.get(text, never)
        kind = POSSESSABLE if language in POSSESSIVE_LANGUAGES and takes_possessive(text) else WORD
        kind = ELISION if is_elision(text, language) else kind
        forms.append(Form(text, rank, min(rank, capital.get(text, never)), kind, follows_elision(text, language)))
    return forms


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


@kernel
def insert_sorted(
    flat: Int32Array,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    max_nodes: int,
) -> _Arrays:
    """Insert rows of tokens in sorted order: parents and last tokens by node, in preorder, and the node of each row."""
    size = min(len(flat), max_nodes + 1)
    parents, tokens, path = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
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
def edges_of(parents: Int32Array, labels: Int32Array) -> _Arrays:
    """Return a trie's edges by node: where each node's begin, int32 (nodes + 1,), ascending labels, and children."""
    starts = np.zeros(len(parents) + 1, np.int32)
    for parent in parents:
        if parent >= 0:
            starts[parent + 1] += 1
    for node in range(len(parents)):
        starts[node + 1] += starts[node]
    children, ends = np.empty(starts[-1], np.int32), starts.copy()
    for node in range(len(parents)):
        parent = parents[node]
        if parent < 0:
            continue
        place = ends[parent]
        ends[parent] += 1
        # Only children that were added to a finished trie are not in order.
        while place > starts[parent] and labels[children[place - 1]] > labels[node]:
            children[place] = children[place - 1]
            place -= 1
        children[place] = node
    return starts, labels[children], children


@kernel
def lower_ranks(below: Int32Array, of_base: Int32Array, edge_start: Int32Array, children: Int32Array) -> None:
    """Lower each node's ranks to the smallest of its children's, which follow it or are of the trie ``of_base``."""
    num_base = of_base.shape[1]
    for mode in range(len(below)):
        for node in range(below.shape[1] - 1, -1, -1):
            lowest = below[mode, node]
            for edge in range(edge_start[node], edge_start[node + 1]):
                child = children[edge]
                lowest = min(lowest, below[mode, child - num_base] if child >= num_base else of_base[mode & 1, child])
            below[mode, node] = lowest
