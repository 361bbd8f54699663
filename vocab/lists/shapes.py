"""Read the cells of a word list as words and their forms, by the shapes that published lists have.

A shape counts where the file shows it: once in a table, in several lines of a plain list, whose odd entry stays as it
is. ``lie1`` and ``lie2`` are "lie", ``bank (money)`` is "bank", ``a, an`` are two words of one rank, ``der Hund, -e``
is "Hund" with "Hunde", and ``gehen, ging, ist gegangen`` is "gehen" with its principal parts.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from vocab.lists.known_lemmas import KnownLemmas
from vocab.marks import unspaced_marks

_LONGEST: Final = 300
"""Characters of a cell that is looked at; a longer one is no word."""

_ARTICLES: Final = {
    "de": "der die das ein eine", "nl": "de het een", "sv": "en ett", "nb": "en ei et", "da": "en et",
    "fr": "le la les l' un une des", "es": "el la los las un una", "ca": "el la els les l' un una",
    "it": "il lo la i gli le l' un uno una un'", "pt": "o a os as um uma", "el": "ο η το οι τα", "hu": "a az egy",
    "en": "the a an",
}  # fmt: skip
_BEFORE_VERBS: Final = {
    "en": "to", "de": "sich zu", "fr": "se s'", "nl": "te zich", "sv": "att", "nb": "å", "da": "at", "ro": "a",
}  # fmt: skip
_AUXILIARIES: Final = {
    "de": "ist hat sein haben", "nl": "is heeft zijn hebben", "fr": "est a être avoir", "it": "è ha essere avere",
    "sv": "har", "nb": "har er", "da": "har er",
}  # fmt: skip
_SLASHED: Final = {"es": "a|as", "pt": "a|as", "it": "a|e", "ca": "a", "fr": "e|ne", "de": "in|innen"}
"""Endings after a / without a hyphen: "bueno/a", "Lehrer/in"."""

_ENDING: Final = r"(?=[^\w]*[-~=¨⸚\u0308])([-~=¨⸚\u0308\"\s]+)([^\W\d_]{0,7})"
_BEFORE_ENDING: Final = re.compile(r"\s+(?=[-~=¨⸚]{1,3}[^\W\d_]{1,7}(?:[\s,;/]|$)|[¨⸚])")
_PARTS: Final = re.compile(r"\s*[;,，；、](?!\d)\s*|\s*/\s*|\s+[-–—|]\s+")
_BRACKET: Final = re.compile(r"[(（\[]([^()（）\[\]]*)[)）\]]")
_NUMBERED: Final = re.compile(r"(.*[^\W\d_])\s?(0?[1-9]|[¹²³⁴⁵⁶⁷⁸⁹])")
_JOINT: Final = re.compile(r"(?<=\w)[|·](?=\w)")
"""Between the parts of "ab|fahren"."""
_DASHES: Final = str.maketrans("–—‐‑−", "-----")

_UNSPACED_PARTS: Final = re.compile(r"[/／|｜、;；,，・]")
_UNSPACED_NOTE: Final = re.compile(r"(?:[(（][^()（）]*[)）]|[0-9０-９¹²³]+)$")
AFFIX_MARKS: Final = "~～〜…-－ 　"


class CellReader:
    """Reads the cells of one column, all of which are looked at first.

    Attributes:
        shapes: What was applied, as phrases for people.
    """

    def __init__(self, cells: Sequence[str], language: str, *, is_table: bool) -> None:
        self.shapes = dict[str, None]()
        self._unspaced = bool(unspaced_marks(language))
        least, fifth = 1 if is_table else max(3, len(cells) // 20), max(3, len(cells) // 5)
        # Letters alone have no shape.
        cells = [cell for cell in cells if not cell.isalpha() and len(cell) <= _LONGEST]
        # "A lot" and "the same" are entries of English lists, and the article of one language is a word of another.
        self._articles = _Prefixes(_ARTICLES, language, cells, fifth if language in ("", "en") else least)
        self._language = language or self._articles.language
        self._before_verbs = _Prefixes(_BEFORE_VERBS, self._language or "en", cells, least)
        self._auxiliaries = _Prefixes(_AUXILIARIES, self._language, (), 0)
        patterns = (_BRACKET, _PARTS, re.compile(r"[\s,/(]" + _ENDING), _JOINT)
        counts = [sum(bool(pattern.search(cell)) for cell in cells) for pattern in patterns]
        # A list with articles or endings is no plain one.
        self._is_table = is_table or counts[2] >= 3 or self._articles.are_shown
        shown = [count >= (1 if self._is_table else 3) for count in counts]
        self._has_brackets, self._has_parts, self._has_endings, self._has_joints = shown
        # Its dictionary is loaded when it is asked.
        self._lemmas = KnownLemmas(self._language or "en")
        numbers = defaultdict[str, set[int]](set)
        for cell in cells:
            if match := _NUMBERED.fullmatch(_BRACKET.sub("", cell).strip()):
                numbers[match[1]].add(int(unicodedata.normalize("NFKC", match[2])))
        self._homographs = {base for base, found in numbers.items() if 1 in found and (self._is_table or 2 in found)}

    def read(self, cell: str) -> tuple[list[str], list[str]]:
        """Return the words of a cell, and the forms of the first; the cell itself where no shape fits."""
        if cell.isalpha() or len(cell) > _LONGEST:
            return [cell], []
        if self._unspaced:
            return self._read_unspaced(cell), []
        text, forms = self._read_brackets(self._without_number(cell))
        words, is_verb = list[str](), False
        for part in self._split(self._without_number(text)):
            if words and (endings := _endings_of(part)):
                self.shapes["endings"] = None
                forms += self._with_endings(words[0], endings)
            elif not words or not self._is_aside(part, words[0]):
                bare = self._auxiliaries.strip(part) if words else part
                is_verb = is_verb or bare != part
                words.append(self._bare(bare))
        if len(words) > 1:
            is_likely = len(words) > 2
            found = [word for word in words[1:] if is_verb or self._is_form(word, words[0], is_likely=is_likely)]
            forms, words = [*found, *forms], [word for word in words if word not in found]
            self.shapes["variants" if len(words) > 1 else "principal parts"] = None
        return words, [form for form in forms if form not in words]

    def _is_aside(self, part: str, head: str) -> bool:
        """Return whether a part says of what gender or class the word is: "der" of "Hund, der", "Pl."."""
        return bool(_CLASS.fullmatch(part)) or (self._articles.are_all(part) and not self._articles.are_all(head))

    def _without_number(self, text: str) -> str:
        match = _NUMBERED.fullmatch(text)
        if match is None or match[1] not in self._homographs:
            return text
        self.shapes["numbers of homographs"] = None
        return match[1]

    def _read_brackets(self, text: str) -> tuple[str, list[str]]:
        """Return a text without its brackets, and the forms that they name: "be (am/is/are)", "Schüler(in)"."""
        forms = list[str]()
        head = " ".join(_BRACKET.sub("", text).split())
        if not self._has_brackets or not head:
            return text, forms
        for match in list(_BRACKET.finditer(text))[:5]:
            inside, before, after = match[1].strip(), text[: match.start()], text[match.end() :]
            is_attached = before[-1:].isalpha() or after[:1].isalpha()
            shape = "notes in brackets"
            if is_attached and inside.isalpha() and len(inside) <= 5:
                shape = "optional letters"
                forms.append(self._bare(f"{_BRACKET.sub('', before)}{inside}{_BRACKET.sub('', after)}"))
            elif found := self._forms_in(inside, self._bare(head)):
                shape = "forms in brackets"
                forms += found
            self.shapes[shape] = None
        return head, forms

    def _forms_in(self, inside: str, head: str) -> list[str]:
        """Return the forms of a word that stand in brackets after it; none where these hold a note."""
        parts = [part for part in _PARTS.split(inside) if part]
        if endings := [ending for part in parts for ending in _endings_of(part)]:
            return self._with_endings(head, endings)
        items = [self._auxiliaries.strip(part) for part in parts]
        if items != parts:
            return items
        is_form = any(self._is_form(item, head, is_likely=True) for item in items)
        return items if is_form and not any(" " in item for item in items) else []

    def _is_form(self, word: str, head: str, *, is_likely: bool) -> bool:
        begins_so = is_likely and len(head) > 2 and word.startswith(head[: max(3, len(head) - 2)])
        return begins_so or (not self._articles.are_all(word) and self._lemmas.is_form(word, head))

    def _with_endings(self, word: str, endings: Sequence[tuple[str, bool]]) -> list[str]:
        found = (self._lemmas.with_ending(word, ending, has_umlaut=has_umlaut) for ending, has_umlaut in endings)
        return list(filter(None, found))

    def _split(self, text: str) -> list[str]:
        if (bare := self._articles.strip(text)) != text:
            self.shapes["articles"] = None
        if not self._has_parts and not self._has_endings:
            return [bare]
        if self._has_endings:
            bare = _BEFORE_ENDING.sub(", ", bare)
        if self._language in _SLASHED:
            bare = re.sub(rf"(\w{{3,}})/({_SLASHED[self._language]})\b", r"\1, -\2", bare)
        parts = [part for part in _PARTS.split(bare) if part]
        # "24/7" is no two words.
        are_words = all(any(map(str.isalpha, part)) or _endings_of(part) for part in parts)
        return parts if parts and are_words else [bare]

    def _bare(self, part: str) -> str:
        """Return a part without its article, what stands before a verb, and the mark between its parts."""
        if self._has_joints and self._language == "de":
            part = _JOINT.sub("", part)
        for prefixes, shape in ((self._articles, "articles"), (self._before_verbs, "marks of verbs")):
            bare = prefixes.strip(part)
            if bare != part and not prefixes.are_all(bare):
                self.shapes[shape], part = None, bare
        return part

    def _read_unspaced(self, cell: str) -> list[str]:
        """Read "爸爸｜爸" as both, "有（一）点儿" with and without 一, "本（量）" and "点1" without their ends."""
        if not (self._is_table or self._has_brackets or self._has_parts):
            return [cell]
        words = dict[str, None]()
        for part in _UNSPACED_PARTS.split(cell):
            word = _UNSPACED_NOTE.sub("", _UNSPACED_NOTE.sub("", part.strip())).strip(AFFIX_MARKS)
            words |= {_BRACKET.sub(optional, word).strip(AFFIX_MARKS): None for optional in ("", r"\1")}
        words.pop("", None)
        if list(words) != [cell]:
            self.shapes["variants" if len(words) > 1 else "notes in brackets"] = None
        return list(words) or [cell]


class _Prefixes:
    """Words that stand before others, as articles do, of the language or of the one that the cells show."""

    def __init__(self, by_language: dict[str, str], language: str, cells: Sequence[str], least: int) -> None:
        self.language = language
        if not language:
            found = {one: _begin_with(words, cells) for one, words in by_language.items()}
            shown = {one: len(some) for one, some in found.items() if len(set(some)) > 1 and len(some) >= least}
            self.language = max(shown, key=shown.__getitem__, default="")
        words = by_language.get(self.language, "")
        self._words = frozenset(by_language.get(self.language or "en", "").split())
        self.are_shown = bool(words) and len(_begin_with(words, cells)) >= least
        self._pattern = _prefix_pattern(words) if self.are_shown else re.compile("(?!)")

    def strip(self, text: str) -> str:
        return self._pattern.sub("", text, count=1) if self._pattern.match(text) else text

    def are_all(self, text: str) -> bool:
        return self._words.issuperset(text.lower().split())


def _begin_with(words: str, cells: Sequence[str]) -> list[str]:
    pattern = _prefix_pattern(words)
    return [match[1].lower() for cell in cells if (match := pattern.match(cell))]


def _prefix_pattern(words: str) -> re.Pattern[str]:
    """Match one of the words before another, or several: "el/la estudiante", "l'homme"."""
    one = "|".join(sorted(words.split(), key=len, reverse=True))
    return re.compile(rf"({one})(?:\s?[/,]\s?(?:{one}))*(?:\s+|(?<=')\s?)(?=\w)", re.IGNORECASE)


def _endings_of(part: str) -> list[tuple[str, bool]]:
    """Return the endings that a part consists of, and whether each changes the vowel: "-e", "¨-er", "-n -or"."""
    part = part.translate(_DASHES)
    pieces = [part] if part[:1] in "¨⸚" else part.split()
    found = [match for piece in pieces if (match := re.fullmatch(_ENDING, piece))]
    return (
        [(match[2], not set(match[1]).isdisjoint('¨⸚"\u0308')) for match in found] if len(found) == len(pieces) else []
    )


_LINES: Final = (
    ("quotation marks", re.compile(r"""\s*(["“„«'‘])(?P<text>.+?)["”“»'’][,;]?\s*""")),
    ("bullets", re.compile(r"\s*[-–—•*·‣▪◦]\s+(?P<text>\S.*)")),
    ("numbers before words", re.compile(r"\s*\(?\d[\d.,]*[.):]?\s+(?P<text>\S.*)")),
    ("counts after words", re.compile(r"(?P<text>.*\S)\s+[\d.,]*\d%?\s*")),
)
_CLASSES: Final = (
    "n|v|vt|vi|adj|adv|prep|conj|pron|det|exclam|num|number|art|aux|modal|phr|abbr|interj|indefinite|definite|article|"
    "infinitive|marker|auxiliary|noun|verb|adjective|adverb|preposition|conjunction|pronoun|determiner|exclamation|"
    "m|f|nt|pl|sg"
)
_CLASS: Final = re.compile(rf"(?:nur )?(?:{_CLASSES})\.", re.IGNORECASE)
_LEVEL: Final = r"\(?([ABC][12])\)?"
_ENDS: Final = re.compile(rf"(?:[\s,/]+(?:(?:{_CLASSES})\.?|{_LEVEL}))+\s*$", re.IGNORECASE)


def read_lines(lines: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return lines without what nearly all have around their words, with the level of each, and the shapes' names.

    These are quotation marks, bullets, numbers, counts, and the word classes and levels of "abandon v. B2".
    """
    shapes, texts = list[str](), [line if len(line) <= _LONGEST else "" for line in lines]
    num_filled = sum(map(bool, texts))
    if sum(not text.isalpha() for text in texts) < max(3, 0.3 * num_filled):
        return [(line, "") for line in lines], shapes
    for shape, pattern in _LINES:
        found = [pattern.fullmatch(text) for text in texts]
        bare = [match["text"] if match else text for match, text in zip(found, texts, strict=True)]
        # Of "lie 1" and "lie 2" the numbers tell words apart.
        if sum(map(bool, found)) >= max(3, 0.8 * num_filled) and len(set(bare)) > 0.7 * len(set(texts)):
            texts = bare
            shapes.append(shape)
    ends = [_ENDS.search(text, max(1, len(text) - 60)) for text in texts]
    levels = [min(re.findall(_LEVEL, match[0].upper()), default="") if match else "" for match in ends]
    num_dotted = sum("." in match[0] for match in ends if match)
    if sum(map(bool, levels)) >= max(3, 0.6 * num_filled) or num_dotted >= max(3, 0.3 * num_filled):
        shapes.append("word classes and levels after words")
        texts = [text[: match.start()] if match else text for text, match in zip(texts, ends, strict=True)]
    else:
        levels = [""] * len(texts)
    return [(text or line, level) for text, line, level in zip(texts, lines, levels, strict=True)], shapes


_WIDE: Final = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_FOLDED_LETTERS: Final = {
    **{code: char for code, char in _WIDE.items() if char.isalnum()},
    **dict.fromkeys(map(ord, "´`‘’ʼ′＇"), "'"),
    **dict.fromkeys((0x2010, 0x2011), "-"),
}
_FOLDED: Final = {**_WIDE, **_FOLDED_LETTERS}


def folded(text: str, *, is_unspaced: bool = False) -> str:
    """Return an entry of a file with one apostrophe and one hyphen, and nothing of full width.

    In languages without spaces marks of full width are the usual ones, and stay.
    """
    return text.translate(_FOLDED_LETTERS if is_unspaced else _FOLDED)
