"""A slow reference for the spelling of words: it follows every way to cut what was written into words and gaps.

It asks the tokenizer for every form by itself, bare and behind a blank or a mark, and knows nothing of what a text is:
a mask is judged together with xgrammar's, which knows texts and no words' spellings.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.recogniser import CLOSE_MARKS, OPEN_MARKS
from vocab.automaton.tokenizer import Speller

MARK, BLANK, WORD = "mark", "blank", "word"
POSSESSIVE: Final = "'s"
LEADS: Final = f"{OPEN_MARKS}\n"
MARKS: Final = f"{CLOSE_MARKS}{OPEN_MARKS}—–"


class Parse(NamedTuple):
    """One way to read the tokens so far.

    Attributes:
        lead: Within a word: what was before it; None between words.
        tokens: Within a word: its tokens so far.
        before: Between words: what stands to the left.
        cut: Between words: the first bytes of a character.
    """

    lead: str | None
    tokens: tuple[int, ...] = ()
    before: str = ""
    cut: bytes = b""


Parses = frozenset[Parse]
START: Final[Parses] = frozenset({Parse(None, before=MARK)})


class CanonicalTokens:
    """Which tokens may come next, if every word is spelled as its tokenizer spells it.

    ``forms`` are all ways to write a listed word, without marks at their edges.
    """

    def __init__(self, speller: Speller, forms: Iterable[str], *, possessive: bool = False) -> None:
        self._bytes = speller.facts.token_bytes
        self.num_tokens = len(self._bytes)
        self._next: dict[Parse, set[int]] = {}
        self._whole: set[Parse] = set()
        forms = sorted(set(forms))
        if possessive:
            forms += [f"{form}{mark}s" for form in forms if not set(form) & set("'’") for mark in "'’"]
        for lead in ("", " ", *LEADS):
            for tokens in speller.spell([lead + form for form in forms]):
                if tokens is not None:
                    self._add(lead, tokens)
        if possessive:
            for ending in speller.possessives:
                self._add(POSSESSIVE, ending)
        self._gaps = {token for token, spelled in enumerate(self._bytes) if spelled and not _has_letter(spelled)}

        self._gaps_by_cut: dict[bytes, set[int]] = {}
        self._cuts = {char.encode()[:size] for char in MARKS for size in range(len(char.encode()))}

    def _add(self, lead: str, tokens: Iterable[int]) -> None:
        so_far = Parse(lead)
        for token in tokens:
            self._next.setdefault(so_far, set()).add(token)
            so_far = Parse(lead, (*so_far.tokens, token))
        self._whole.add(so_far)

    def allowed(self, parses: Parses) -> set[int]:
        found: set[int] = set()
        for parse in parses:
            if parse.lead is not None:
                found |= self._next.get(parse, set())
                continue
            found |= self._gaps_after(parse.cut)
            for start in self._starts(parse):
                found |= self._next.get(start, set())
        return found

    def step(self, parses: Parses, token: int) -> Parses:
        reached: set[Parse] = set()
        for parse in parses:
            if parse.lead is not None:
                reached |= self._in_word(parse, token)
                continue
            for start in self._starts(parse):
                reached |= self._in_word(start, token)
            if token in self._gaps and (cut := self._cut(parse.cut, token)) is not None:
                reached.add(Parse(None, before=BLANK if self._bytes[token].endswith(b" ") else MARK, cut=cut))
        return frozenset(reached)

    def _gaps_after(self, cut: bytes) -> set[int]:
        if cut not in self._gaps_by_cut:
            self._gaps_by_cut[cut] = {token for token in self._gaps if self._cut(cut, token) is not None}
        return self._gaps_by_cut[cut]

    def _cut(self, cut: bytes, token: int) -> bytes | None:
        """Return the first bytes of a mark that a gap token leaves; None where it completes or begins a letter."""
        spelled = cut + self._bytes[token]
        whole = spelled.decode("utf-8", "ignore").encode()
        left = spelled[len(whole) :]
        return left if left in self._cuts and not _has_letter(whole) else None

    def _starts(self, parse: Parse) -> list[Parse]:
        """Return the words that may begin: one without a blank never behind a blank that is a token of its own."""
        if parse.cut:
            return []
        leads = (" ", *(("",) if parse.before == MARK else ()), *(() if parse.before == BLANK else LEADS))
        return list(map(Parse, leads))

    def _in_word(self, parse: Parse, token: int) -> set[Parse]:
        if token not in self._next.get(parse, ()):
            return set()
        here = parse._replace(tokens=(*parse.tokens, token))
        if here not in self._whole:
            return {here}
        ends = {here, Parse(None, before=WORD)}
        return ends | {Parse(POSSESSIVE)} if parse.lead != POSSESSIVE else ends


def _has_letter(spelled: bytes) -> bool:
    """Whether there is a letter or an apostrophe, which is never a mark."""
    return any(char in "'’" or unicodedata.category(char)[0] in "LM" for char in spelled.decode("utf-8", "ignore"))
