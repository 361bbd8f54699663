"""Check a text against a word list: which of its words are listed, and where those are that are not.

All words of a text that the automaton allows are listed here. Beyond that any text can be checked: marks, layout and
the ends of sentences do not matter, and a listed word counts in other capitals. Every character that is shown is part
of a word, a number or a symbol, or it is a mark (Unicode's punctuation) or a blank: nothing is passed over in silence.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from vocab import marks
from vocab.errors import LanguageError, ListTooLargeError
from vocab.lists.cleaned import lowercase, titlecase
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, ranks_left_out
from vocab.text.forms import (
    ELISION_LANGUAGES,
    POSSESSIVES,
    FormRanks,
    fold_case,
    follows_elision,
    has_possessives,
    is_elision,
)
from vocab.text.report import ALLOWED, NOT_MISSING, NUMBER, UNLISTED, CheckedWord, Note, TextReport, new_key
from vocab.text.units import HIDDEN_CHARACTER, SYMBOL, runs_of, unit_pattern, word_pattern

if TYPE_CHECKING:
    from vocab.answers import Reason
    from vocab.text.nearest import NearestWords
    from vocab.text.words import Dictionary, Segment

Key = TypeVar("Key")
Value = TypeVar("Value")

Phrases: TypeAlias = Mapping[str, Sequence[tuple[int, int]]]

MAX_NOTED: Final = 1_000
"""Spellings that are not allowed of which the nearest words are reported, the first of a text. Costs 0.3 ms each."""

MAX_COMPARED: Final = 200_000_000
"""Such spellings times the words that they are compared with; about 1.5 s. Of a list of 730,000 words they are 270."""

MAX_TRIES: Final = 2_000_000
"""Of entries with blanks at the places of a text where their first words are. Costs up to 20 µs each. Set by the list
of such entries that all begin with the same word; those of built-in lists are tried some hundred times in a novel."""

_MAX_KNOWN: Final = 50_000
"""Spellings whose answer is cached: those of a long novel. Costs 300 bytes each."""

_MAX_GAP: Final = 8
"""Characters of a gap between two words whose answer is cached; nearly all are shorter."""

MAX_ELISION: Final = 16
"""Characters of an elided word, its apostrophe included; "lorsqu'" has seven."""


class _Found(NamedTuple):
    rank: int | None
    reason: "Reason"
    key: str

    @property
    def is_allowed(self) -> bool:
        return self.reason in ALLOWED


class TextChecker:
    """Check texts against the words of rank ``n_words`` and better of a list, with ``changes``.

    Made once for many texts: for 152,778 English words in half a second. Numbers in digits are allowed with
    ``options.numbers``. Words of ``new_words`` (NFC, without duplicates) that the list does not allow are new.
    ``forms`` are those of the same list and options, where they are known.

    A text of a language without spaces is cut into words of the dictionary (``reference``, by default the built-in one,
    with the words of the list and the request's), by the options' ``segmentation``.

    Where it is ``inflected``, added and new words count with the endings of their language too.

    Raises:
        LanguageError: The endings of the language are not known.
    """

    def __init__(
        self,
        word_list: WordList,
        options: ListOptions,
        n_words: int,
        changes: ListChanges = NO_CHANGES,
        new_words: Sequence[str] = (),
        *,
        forms: "ListForms | None" = None,
        reference: "Dictionary | None" = None,
        inflected: bool = False,
    ) -> None:
        self._possessive = has_possessives(options, word_list.language, word_list.source)
        forms = forms or ListForms(word_list, options)
        added = WordList(word_list.lang, changes.extra_words, "inline")
        new = WordList(word_list.lang, tuple(new_words), "inline")
        self._language = word_list.language
        self._n_words = n_words
        self._number: Reason = "number" if options.numbers else "unknown"
        self._ranks = forms.ranks
        self._added = FormRanks(added, replace(options, case="sentence")) if added.words else None
        self._new = FormRanks(new, replace(options, case="sentence")) if new.words else None
        self._new_words = new.words
        self._left_out = ranks_left_out(word_list, changes.exclude_words)
        self._phrases = _phrases((*added.words, *new.words), forms.phrases)
        num_compared = max(min(n_words, len(word_list.words)), 1)
        self._max_noted = min(MAX_NOTED, MAX_COMPARED // num_compared)
        self._list, self._extra_words = word_list, changes.extra_words
        self._bases_of: Callable[[str, str], Iterable[str]] | None = None
        if inflected:
            from vocab.text.endings import bases_of, tables

            if self._language not in tables():
                lacking, known = f"'inflected' needs the endings of {self._language!r}", " ".join(sorted(tables()))
                raise LanguageError(f"{lacking}: leave it out, or name a list of {known}.", "inflected")
            self._bases_of = bases_of
        self._known: dict[tuple[str, bool], _Found] = {}
        self._starts: dict[str, bool] = {}
        self._cut: Callable[[str], list[Segment]] | None = None
        if word_list.is_unspaced:
            from vocab.text.words import Segmenter, dictionary_of

            dictionary = dictionary_of(word_list, changes, reference).with_words(new.words)
            segmenter = Segmenter(dictionary, self._rank_of_allowed, has_numbers=options.numbers)
            self._cut = segmenter.longest if options.segmentation == "longest" else segmenter.any

    @cached_property
    def _nearest(self) -> "NearestWords":
        """Search for words near to others; imported where a text has any, with lemmas and numpy."""
        from vocab.text.nearest import NearestWords

        return NearestWords(self._list, self._n_words, self._left_out, self._extra_words)

    def check(
        self,
        text: str,
        *,
        folds: bool = False,
        keep_names: bool = False,
        with_lemmas: bool = False,
        with_notes: bool = True,
    ) -> TextReport:
        """Check a text: report its words, whether each is allowed, and with notes what is known of the others.

        Words that are not allowed as they are spelt get a second look with ``folds``, folded (``vocab.text.folding``).
        Those that are names by their capitals are counted apart with ``keep_names``.

        Raises:
            ListTooLargeError: Too many entries with blanks begin with the words of the text.
            LanguageError: Capitals do not tell names in the language.
        """
        num_tries = [0]
        words = self._read(text, num_tries)
        if folds:
            words = self._look_again(text, words, num_tries)
        if keep_names:
            from vocab.text.names import NO_NAMES, names_in, without_possessive

            if why := NO_NAMES.get(self._language):
                lacking = f"'names' cannot be told in {self._language!r}, which {why}"
                raise LanguageError(f"{lacking}: add them as 'extra_words' instead.", "names")
            names = set(names_in(text, words, frozenset(self._list.words)))
            words = [
                word._replace(reason="name")
                if word.reason in _REPLACEABLE and without_possessive(text[word.start : word.end]) in names
                else word
                for word in words
            ]
        notes: dict[str, Note] = {}
        # Short words of thousands of characters have no near ones.
        for word in words if self._cut is None and with_notes else ():
            if word.reason in UNLISTED and (written := text[word.start : word.end]) not in notes:
                if len(notes) >= self._max_noted:
                    break
                notes[written] = self._nearest.note(unicodedata.normalize("NFC", written), word.rank)
        return TextReport(text, words, self._new_words, notes, self._lemmas(text, words) if with_lemmas else None)

    def reason(self, word: str) -> "Reason":
        """Return why an entry of a list, as it is written there, is allowed, or not."""
        return self._find(word, False).reason

    def _lemmas(self, text: str, words: Iterable[CheckedWord]) -> dict[str, str | None]:
        by_spelling = {text[word.start : word.end]: word for word in words}
        return {
            spelling: None
            if word.is_number or word.is_symbol
            else self._nearest.lemma(unicodedata.normalize("NFC", spelling), word.rank)
            for spelling, word in by_spelling.items()
        }

    def _read(self, text: str, num_tries: list[int]) -> list[CheckedWord]:
        return list(self._words(text, num_tries) if self._cut is None else self._segments(text, self._cut))

    def _look_again(self, text: str, words: list[CheckedWord], num_tries: list[int]) -> list[CheckedWord]:
        """Look up the words that are not allowed as they are spelt once more, folded, with what they are joined to."""
        from vocab.text.folding import EDGE, FOLDED, JOINT, foldings

        if not FOLDED.search(text):
            return words
        settled, first = list[CheckedWord](), 0
        while first < len(words):
            last, most = first + 1, len(words) if self._cut is None else first + 1
            while last < most and JOINT.fullmatch(text, words[last - 1].end, words[last].start):
                last += 1
            own, first = words[first:last], last
            begin, stop = own[0].start, own[-1].end
            wide = begin - (text[begin - 1 : begin] in EDGE), stop + (text[stop : stop + 1] in EDGE)
            for start, end in dict.fromkeys((wide, (begin, stop))):
                if all(word.reason in NOT_MISSING for word in own):
                    break
                for folded in foldings(text[start:end], self._language):
                    found = _moved(self._read(folded, num_tries), folded, text[start:end], start)
                    if _is_better(found, own):
                        own = found
            settled += own
        return settled

    def _words(self, text: str, num_tries: list[int]) -> Iterator[CheckedWord]:
        done = after_word = 0
        for match in unit_pattern().finditer(text):
            start, end = match.span()
            if start < done:
                # Of an entry with several words.
                continue
            word = match[0]
            # A symbol between a sentence and the next one is no word of either.
            starts = not after_word or self._starts_sentence(text[after_word:start])
            if self._phrases and (shapes := self._phrases.get(fold_case(word))):
                num_tries[0] += len(shapes)
                if num_tries[0] > MAX_TRIES:
                    raise ListTooLargeError(
                        "Too many entries with blanks or marks begin with words of this text: name fewer, or send a "
                        "part of the text."
                    )
                if (phrase := self._phrase(text, start, shapes, starts)) and phrase.start >= done:
                    yield phrase
                    done = after_word = phrase.end
                    continue
            found = self._known.get((word, starts)) or self._find(word, starts)
            done = end
            if match.lastgroup == SYMBOL:
                yield CheckedWord(start, end, *found)
                continue
            after_word = end
            if found.reason in ALLOWED:
                yield CheckedWord(start, end, *found)
                continue
            for length, part in self._parts(word, found, starts):
                yield CheckedWord(start, start + length, *part)
                start += length

    def _segments(self, text: str, cut: Callable[[str], list["Segment"]]) -> Iterator[CheckedWord]:
        """Yield the words, numbers and symbols of a text without spaces, each checked against the list.

        What begins no word of the dictionary is one unknown word, as far as it goes.
        """
        for run in runs_of(text, self._language):
            for is_word, group in groupby(cut(run.shown), lambda segment: segment.is_word):
                segments = list(group)
                if is_word:
                    for start, end, _ in segments:
                        found = self._find(run.shown[start:end], False)
                        yield CheckedWord(run.starts[start], run.ends[end - 1], *found)
                    continue
                start, end = run.starts[segments[0].start], run.ends[segments[-1].end - 1]
                for match in unit_pattern().finditer(text, start, end):
                    yield CheckedWord(match.start(), match.end(), *self._find(match[0], False))

    def _rank_of_allowed(self, word: str) -> int | None:
        """Return the rank of a word that is allowed or declared to be new, 0 where it has none; None for any other."""
        found = self._find(word, False)
        return found.rank or 0 if found.is_allowed or found.reason == "new" else None

    def _starts_sentence(self, gap: str) -> bool:
        known = self._starts.get(gap)
        if known is None:
            known = _SENTENCE_START.search(gap) is not None
            if len(gap) <= _MAX_GAP:
                _keep(self._starts, gap, known)
        return known

    def _phrase(self, text: str, start: int, shapes: Sequence[tuple[int, int]], starts: bool) -> CheckedWord | None:
        """Return the longest allowed or new entry with blanks or marks whose first word is at ``start``, or None.

        An abbreviation is one word though it is neither ("e.g."), unless its beginning is a more frequent one.
        """
        rare: CheckedWord | None = None
        for before, length in shapes:
            first, last = start - before, start - before + length
            # "ice cream's" is one word, if it is one at all.
            last += len(POSSESSIVES[0]) * text.startswith(POSSESSIVES, last)
            if first < 0 or last > len(text) or _is_letter(text[last : last + 1]):
                continue
            found = self._find(text[first:last], starts)
            if found.is_allowed or found.reason == "new":
                return CheckedWord(first, last, *found)
            if rare is None and found.rank is not None and text[last - 1] == ".":
                rare = CheckedWord(first, last, *found)
        if rare is None or rare.rank is None:
            return None
        match = unit_pattern().match(text, start)
        alone = None if match is None else self._find(match[0], starts)
        if alone is None or alone.is_allowed:
            return None
        # "i.e.": a lone "i" lacks its capital.
        is_commoner = alone.rank is not None and self._n_words < alone.rank < rare.rank
        return None if is_commoner else rare

    def _parts(self, word: str, whole: _Found, starts: bool) -> list[tuple[int, _Found]]:
        """Split a run of letters that is not allowed as a whole at an elision; return pairs of length and word."""
        if self._language not in ELISION_LANGUAGES or whole.reason != "unknown":
            return [(len(word), whole)]
        for cut in range(2, min(len(word), MAX_ELISION + 1)):
            head = word[:cut]
            if not is_elision(head, self._language) or not follows_elision(rest := word[cut:], self._language):
                continue
            elided, following = self._find(head, starts), self._find(rest, False)
            # "l'homme" is two words even where one of them is not allowed, unless the list has it whole.
            if elided.reason != "unknown":
                return [(len(head), elided), (len(rest), following)]
        return [(len(word), whole)]

    def _find(self, word: str, starts: bool) -> _Found:
        """Look up a word as written, then as shown, without hidden characters; cached."""
        key = word, starts
        found = self._known.get(key)
        if found is None:
            found = self._look_up(unicodedata.normalize("NFC", word), starts)
            shown = HIDDEN_CHARACTER.sub("", word)
            if not found.is_allowed and shown and shown != word:
                # As it is seen: "to\u00adday" is "today". An entry with a joiner was found as it is written.
                as_shown = self._look_up(unicodedata.normalize("NFC", shown), starts)
                found = found if as_shown.reason == "unknown" else as_shown
            if self._bases_of is not None and found.reason in _REPLACEABLE:
                bases = self._bases_of(unicodedata.normalize("NFC", shown), self._language)
                inflected = (self._look_up(base, True) for base in bases)
                found = next((base for base in inflected if base.reason in ("added", "new")), found)
            if found.reason == "unknown" and not word_pattern().match(word):
                found = _Found(None, "symbol", word)
            _keep(self._known, key, found)
        return found

    def _look_up(self, word: str, starts: bool) -> _Found:
        beyond: set[int] = set()
        new: int | None = None
        tries = {(word, starts): None, (word, True): None, **{(other, True): None for other in self._in_small(word)}}
        for written, may_have_capital in tries:
            ranks = set(self._ranks_of(self._ranks, written, may_have_capital))
            allowed = [rank for rank in ranks if rank <= self._n_words and rank not in self._left_out]
            if allowed:
                is_written = written == word and may_have_capital == starts
                return _Found(min(allowed), "listed" if is_written else "capitals", str(min(allowed)))
            beyond |= ranks
            if self._added and (added := set(self._ranks_of(self._added, written, may_have_capital))):
                return _Found(min(ranks, default=None), "added", f"+{min(added)}")
            if self._new and new is None:
                new = min(self._ranks_of(self._new, written, may_have_capital), default=None)
        if not beyond:
            # "hund": the list has it with a capital, which it needs.
            for capital in {titlecase(written, self._language) for written, _ in tries}:
                beyond.update(self._ranks_of(self._ranks, capital, True))
        if new is not None:
            return _Found(min(beyond, default=None), "new", new_key(new))
        if NUMBER.fullmatch(word):
            return _Found(None, self._number, word)
        if not beyond:
            return _Found(None, "unknown", word.casefold())
        rank = min(beyond)
        return _Found(rank, "excluded" if rank in self._left_out else "rare", str(rank))

    def _ranks_of(self, ranks: FormRanks, written: str, starts: bool) -> Iterator[int]:
        return ranks.ranks(written, starts_sentence=starts, possessive=self._possessive)

    def _in_small(self, word: str) -> list[str]:
        """Return a word in other capitals than those it has: "THE" may be "the" and "The"."""
        lower = lowercase(word, self._language)
        return [] if lower == word else [titlecase(lower, self._language), lower]


class ListForms:
    """What of a list is the same for every N and all changes; made once for many checkers."""

    def __init__(self, word_list: WordList, options: ListOptions) -> None:
        self.ranks = FormRanks(word_list, options)
        self.phrases: Phrases = {} if word_list.is_unspaced else _phrases(word_list.words, {})


def _keep(known: dict[Key, Value], key: Key, value: Value) -> None:
    """Cache a value; a full cache is emptied first."""
    # Not the one used last: that would cost each look-up more than one in a thousand look-ups made again.
    if len(known) >= _MAX_KNOWN:
        known.clear()
    known[key] = value


def _is_better(words: Sequence[CheckedWord], spelt: Sequence[CheckedWord]) -> bool:
    """Return whether words are all allowed, or known to the list where none is allowed as it is spelt."""
    reasons, before = {word.reason for word in words}, {word.reason for word in spelt}
    if before.isdisjoint(NOT_MISSING) and not before.isdisjoint(_STRANGE):
        return bool(words) and reasons.isdisjoint(_STRANGE)
    return bool(words) and reasons <= NOT_MISSING and not before <= NOT_MISSING


def _moved(words: Sequence[CheckedWord], folded: str, text: str, start: int) -> list[CheckedWord]:
    """Return the words of a folded text where they are in the text; none where that is not known."""
    if len(folded) == len(text):
        places = [(word.start, word.end) for word in words]
    else:
        places = [(0, len(text))] if len(words) == 1 and words[0][:2] == (0, len(folded)) else []
    return [
        CheckedWord(start + first, start + last, word.rank, "spelling", word.key)
        if word.reason in ("listed", "capitals") and text[first:last] != folded[word.start : word.end]
        else word._replace(start=start + first, end=start + last)
        for word, (first, last) in zip(words, places, strict=False)
    ]


_STRANGE: Final = frozenset(("unknown", "symbol"))
_REPLACEABLE: Final = frozenset(("unknown", "rare"))

_SENTENCE_START: Final = re.compile(
    rf"[\n\r]|[{re.escape(marks.SENTENCE_MARKS)}][{re.escape(marks.CLOSING_QUOTES + marks.APOSTROPHES)}]*\s"
)


def _phrases(entries: Iterable[str], others: Phrases) -> Phrases:
    """Index the entries that are no plain words, to find them in a checked text, besides those of ``others``.

    By their first word: its offset and their length, longest first.
    """
    found: dict[str, set[tuple[int, int]]] = {}
    pattern = unit_pattern()
    for entry in entries:
        if not pattern.fullmatch(entry) and (first := pattern.search(entry)):
            key = fold_case(first[0])
            found.setdefault(key, set(others.get(key, ()))).add((first.start(), len(entry)))
    longest_first = {key: sorted(shapes, key=lambda shape: (-shape[1], shape)) for key, shapes in found.items()}
    return {**others, **longest_first}


def _is_letter(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] in "LMN"
