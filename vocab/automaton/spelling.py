"""How the tokenizer of a model spells the words of a list, by what may stand before and after them.

A model has seen words only as its tokenizer cuts them, so only that spelling of a word is allowed. It depends on what
stands to the left: after a blank most tokenizers put the blank into the word's first token, and some draw a mark in.
Marks at the edges of an entry ("Mr.", "l'") may share tokens with the marks of the text around them: they are the
frame's (``vocab.automaton.frame``), and only the core between them is spelled here.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from vocab.automaton.compiled_list import ELISION, NEVER, NO_KIND, POSSESSABLE, POSSESSIVE, WORD, Root
from vocab.automaton.tokenizer import LEADS, Speller
from vocab.errors import ListTooLargeError
from vocab.lists.wordlists import WordList
from vocab.marks import APOSTROPHES, BLANK
from vocab.text.forms import Capitals, follows_elision, has_apostrophe, has_possessives, is_elision, spellings

_ELISION_MARKS: Final = tuple(APOSTROPHES)
"""An apostrophe that a word may follow is the end of an elision."""

MAX_OWN_WORK: Final = 3_800_000
"""Characters that the tokenizer is asked to spell of a request's own list, after everything that may stand before
them, and tokens that it answers: 4 s of one core. The first 50,000 words of wordfreq's languages need up to 3.1
million."""

MAX_ROOTS: Final = 512
"""Several for each run of marks with which entries begin or end. The frame looks at each in each of its states, and in
each mask of one."""

_Edges: TypeAlias = tuple[str, str, str]
"""The head, the core and the tail of an entry."""

_Tokens: TypeAlias = list[int] | None


class _Form(NamedTuple):
    """A way to write a word: its ranks as listed and with a capital allowed, what it leaves, and what it follows."""

    text: str
    listed_rank: int
    capital_rank: int
    kind: int
    follows_elision: bool


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
    spelling = _Spelling(forms, speller, max_work)
    spelling.spell()
    lost = {form.text for form in forms if form.text not in spelling.found}
    if possessive:
        spelling.rows += [SpelledForm("", POSSESSIVE, tokens, 0, 0, WORD) for tokens in speller.possessives]
    return spelling.rows, lost


class _Spelling:
    """The spellings of word forms.

    Attributes:
        rows: What was spelled.
        found: The texts of it.
    """

    def __init__(self, forms: Sequence[_Form], speller: Speller, max_work: int | None) -> None:
        self._speller, self._max_work, self._work = speller, max_work, 0
        self.rows: list[SpelledForm] = []
        self.found: set[str] = set()
        # Nearly all are spelled by themselves and after a blank: some lists are refused before anything is spelled.
        self._check(2 * sum(len(form.text) for form in forms))
        cut = [_edges(form.text) for form in forms]
        if max_work is not None and len({(head, tail) for head, _, tail in cut}) > MAX_ROOTS:
            raise too_many_runs()
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
            is_elision_mark = lead in _ELISION_MARKS
            drawn = [
                i
                for i in self._has_no_head
                if (self._forms[i].follows_elision or not is_elision_mark)
                and (self._cores[i][0] in drawn_letters or i in lone)
            ]
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
                self._add(i, Root(lead, head, "", kind if head else NO_KIND), whole, kind)
        return spelled

    def _add(self, i: int, root: Root, tokens: _Tokens, kind: int) -> None:
        """Add how a form is spelled below a root, and after an elision; None where it is not."""
        if tokens is None:
            return
        form, row = self._forms[i], tuple(tokens)
        self.found.add(form.text)
        if root.lead not in _ELISION_MARKS:
            self.rows.append(SpelledForm(form.text, root, row, form.listed_rank, form.capital_rank, kind))
        if form.follows_elision and not root.head and (not root.lead or root.lead in _ELISION_MARKS):
            elided = root._replace(is_elided=True)
            self.rows.append(SpelledForm(form.text, elided, row, form.listed_rank, form.capital_rank, kind))

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
