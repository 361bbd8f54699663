"""Korean words: each stem with its particles or endings, which all have the stem's rank.

wordfreq counted morphemes (이, 는, 하), and texts never write most of them apart. Kiwi's dictionary says which are
stems: its morphemes stand in the order of their frequency, by which an entry's count is divided among all that it may
be (는 is a particle, and a form of 늘다). Kiwi also joins stems with endings, and its language model says which nouns
have verbs with 하다, 되다 and the like: these have the noun's rank. The particles and endings are in
``by_hand/korean.txt``.
"""

import importlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import wordfreq

from tools.lists.evidence import python_path
from tools.lists.hand import FOLDER, read_hand
from tools.lists.packages import npm_folder, read_json
from tools.lists.page import Row
from tools.lists.wordfreq_list import wordfreq_words
from tools.lists.writing import write_list

HANGUL: Final = re.compile("[가-힣]+")

_RIEUL: Final = 8
_ENDING_TAGS: Final = {"\u11ab": "ETM", "\u11af": "ETM", "\u11b7": "ETN"}

MAX_STEMS: Final = 10_000
DEPTHS: Final = ((300, 3), (1_500, 2), (MAX_STEMS, 1), (2 * MAX_STEMS, 1))
"""Up to which rank a stem has how much of the tables; a verb made of a noun, up to half of it."""

_PLAIN_TAGS: Final = frozenset(["NNG", "NNP", "NNB", "NR", "NP", "MM", "MAG", "MAJ", "IC"])
_SUFFIX_TAGS: Final = frozenset(["XSN", "XSV", "XSA", "XPN"])
_MUCH_RARER: Final = 3
_NEVER_ALONE: Final = frozenset(("는", "을", "습니다", "하"))
"""Morphemes that are spelled as a form of a rarer stem is: 늘다, 슬다."""
_NOUNS: Final = frozenset(["NNG", "NNP", "NNB", "NR", "NP"])
_VERBS: Final = frozenset(["VV", "VA", "VX", "VCN"])
_WITH_HADA: Final = frozenset(["얘기", "공경"])
"""Nouns that take 하다 though Kiwi seldom has it behind them."""
_SUFFIXED: Final = {
    "하/XSV": "verb", "하/XSA": "adjective", "되/XSV": "verb", "시키/XSV": "verb", "받/XSV": "verb", "당하/XSV": "verb",
    "스럽/XSA-I": "adjective", "롭/XSA-I": "adjective", "답/XSA-I": "adjective",
}  # fmt: skip
"""Suffixes that make verbs and adjectives of nouns."""
_NOUN_SUFFIXES: Final = ["님", "적", "성", "화", "자", "권", "씨", "쯤", "씩", "별", "상"]
_DEFECTIVE: Final = {"싶": ("adjective",), "않": ("verb", "adjective"), "못하": ("verb", "adjective")}
_AUXILIARIES: Final = ("주", "보", "지", "드리", "버리", "있")
"""Verbs that are written behind another's 어, with or without a blank."""

MIN_SUFFIXED: Final = 0.008
"""How often a suffix has to follow a noun for the verb to be listed: 운동하다 7%, 학교하다 0.1%."""
MIN_PLURAL: Final = 0.004
FEW_SUFFIXED: Final = 1_000
"""From this rank on a suffix has to be three times as frequent."""
MOST_AUXILIARIES: Final = 500
MAX_PLACE: Final = 25_000
"""Kiwi's places up to which a word counts that wordfreq has not."""
_INFLECTED: Final = 0.05
"""How often a stem is written in one of its forms that are an entry, beside as itself."""


class Stem(NamedTuple):
    """A verb or adjective as Kiwi has it, with what stands before it in the word: 공부 and 하/XSV."""

    before: str
    form: str
    tag: str
    kind: str
    share: float = 1.0
    """How often ``form`` follows what stands before it."""


@dataclass
class Word:
    """One rank of the list. ``place`` is the stem's in Kiwi's dictionary."""

    form: str
    place: int
    score: float = 0.0
    noun_place: int | None = None
    stands_alone: bool = False
    is_adverb: bool = False
    has_plural: bool = False
    derived: dict[str, float] = field(default_factory=dict)
    stems: list[Stem] = field(default_factory=list)


def build_korean(packages: Path) -> Row:
    """Build and write the list; return what the documentation says of it."""
    hand = read_hand("ko")
    named = set(read_json(npm_folder(packages, "naughty-words") / "ko.json")) | hand.unsafe
    lines = list(korean_lines(packages))
    unsafe = {form for stem, forms in lines if stem in named or forms[0] in named for form in forms}
    counts = write_list("ko", ("\t".join(forms) for _, forms in lines), unsafe)
    listed = {form for _, forms in lines for form in forms}
    raw = wordfreq_words("ko")
    left_out = [entry for entry in raw if entry not in listed]
    examples = {"unknown": [entry for entry in left_out if HANGUL.fullmatch(entry)]}
    reasons = Counter("unknown" if HANGUL.fullmatch(entry) else "script" for entry in left_out)
    return Row("ko", len(raw), len(listed) - len(raw) + len(left_out), *counts, reasons, examples)


def korean_lines(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the stems in rank order, each with its forms, of which the first is its dictionary form."""
    kiwi = _Kiwi(folder)
    tables = _Tables(kiwi)
    listed: set[str] = set()
    num_stems = 0
    junk = read_hand("ko").junk
    particles = {form: place for form, tag, place in kiwi.morphemes() if tag[0] in "EJ" or tag in _SUFFIX_TAGS}
    for word in _ranked_words(kiwi, tables):
        forms = [
            form
            for form in dict.fromkeys(tables.forms(word, num_stems + 1))
            # Not what is nearly always a particle or an ending: 는 of 늘다, 을.
            if form not in listed
            and form not in _NEVER_ALONE
            and word.place < _MUCH_RARER * particles.get(form, word.place)
        ]
        if forms and not (word.stands_alone and word.form in junk):
            num_stems += 1
            listed.update(forms)
            yield word.form, forms
        if num_stems == MAX_STEMS:
            return


class _Kiwi:
    """Kiwi with its own dictionary only, without the names of Wikipedia."""

    def __init__(self, folder: Path) -> None:
        with python_path(folder):
            module: Any = importlib.import_module("kiwipiepy")
            options = {"num_workers": 1, "load_typo_dict": False, "load_multi_dict": False}
            self._kiwi = module.Kiwi(load_default_dict=False, **options)
        self._kiwi.tokenize("")

    def join(self, stem: str, tag: str, ending: str) -> str:
        # What makes nouns and what stands before them behaves otherwise than what ends a sentence: 좋은.
        return str(self._kiwi.join([(stem, tag), (ending, _ENDING_TAGS.get(ending, "EF"))]))

    def morphemes(self) -> Iterator[tuple[str, str, int]]:
        """Yield the standard morphemes, each with its tag and place, the most frequent first."""
        place = 0
        while True:
            try:
                morpheme = self._kiwi.morpheme(place)
            except (IndexError, ValueError):
                return
            if HANGUL.fullmatch(morpheme.form) and not morpheme.dialect and morpheme.tag not in ("UN", "P"):
                yield morpheme.form, morpheme.tag, place
            place += 1

    def followers(self, place: int) -> dict[str, float]:
        """Return how often suffixes follow a morpheme: "하/XSV"."""
        found = self._kiwi.predict_next_morpheme([place], top_n=150)
        return {f"{one.form}/{one.tag}": math.exp(one.score) for one in found if one.tag.startswith("XS")}


class _Tables:
    """The particles and endings of ``by_hand/korean.txt``."""

    def __init__(self, kiwi: _Kiwi) -> None:
        self._join = kiwi.join
        sections: dict[str, list[str]] = defaultdict(list)
        section = ""
        for line in (FOLDER / "korean.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                sections[section] += [line] if section == "forms" else line.split()
        lines = (line.partition(": ") for line in sections.pop("forms"))
        self._forms = {stem: forms.split() for stem, _, forms in lines}
        self._sections = sections

    def _tails(self, name: str, depth: int) -> Iterator[str]:
        for level in range(1, depth + 1):
            yield from ("" if tail == "_" else tail for tail in self._sections.get(f"{name} {level}", ()))

    def forms(self, word: Word, rank: int) -> Iterator[str]:
        """Yield the forms of a word, its dictionary form first."""
        depth = next(depth for most, depth in DEPTHS if rank <= most)
        if word.stands_alone:
            yield word.form
        if word.noun_place is not None:
            yield from self._noun_forms(word.form, depth)
        elif word.is_adverb:
            yield from self._attach(word.form, "adverb", depth)
        least = 0 if rank <= FEW_SUFFIXED else 3 * MIN_SUFFIXED
        for noun, share in word.derived.items():
            if share > least:
                yield noun
                yield from self._noun_forms(noun, 1)
        if word.has_plural:
            yield from self._attach(word.form, "들", depth)
        stems = [stem for stem in word.stems if stem.share > least]
        yield from (stem.before + stem.form + "다" for stem in stems)
        for stem in stems:
            verbs_depth = next(depth for most, depth in DEPTHS if 2 * rank <= most) if stem.before else depth
            yield from (stem.before + form for form in self.verb_forms(stem.form, stem.tag, stem.kind, verbs_depth))
            if rank <= MOST_AUXILIARIES:
                yield from (stem.before + form for form in self._with_auxiliaries(stem))
            elif stem.kind == "verb" and not stem.before:
                yield from self._attach(self._join(stem.form, stem.tag, "어"), "behind 어", depth)
        yield from self._forms.get(word.form, ())

    def _noun_forms(self, noun: str, depth: int) -> Iterator[str]:
        yield from self._attach(noun, "noun", depth)
        has_coda = _coda(noun) != 0
        for tail in self._tails("이다", depth):
            if has_coda or not tail.startswith("이"):
                yield noun + tail
                continue
            for full, short in (("이에요", "예요"), ("이었", "였"), ("이어", "여"), ("이", "")):
                if tail.startswith(full):
                    yield noun + short + tail.removeprefix(full)
                    break
            if depth > 1 and full == "이" and tail != "이야":
                yield noun + tail

    def _attach(self, word: str, name: str, depth: int) -> Iterator[str]:
        coda = _coda(word)
        for tail in self._tails(name, depth):
            after_consonant, _, after_vowel = tail.partition("|")
            is_vowels = coda == 0 or (coda == _RIEUL and after_consonant.startswith("으로"))
            yield word + (after_vowel or after_consonant if is_vowels else after_consonant)

    @cache  # noqa: B019  # the tables live as long as the build
    def verb_forms(self, form: str, tag: str, kind: str, depth: int) -> tuple[str, ...]:
        """Return the forms of a verb or an adjective; 있다 and 없다 have some of both."""
        parts = dict(self._parts(form, tag))
        names = [f"{prefix}{part}" for part in parts for prefix in ("", f"{kind} ")]
        if form[-1] in "있없":
            names = [*parts, "verb 네", "adjective 고"]
            names += ["verb 고", "verb 면", "verb 니까", "verb ㄹ", "verb 어"] if form[-1] == "있" else []
        return tuple(
            part + tail
            for name in names
            for part in parts[name.rpartition(" ")[2]]
            for tail in self._tails(name, depth)
        )

    def _parts(self, form: str, tag: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the principal parts: what a stem is before each kind of ending."""
        for ending, cut in (("고", 1), ("네", 1), ("면", 1), ("니까", 2)):
            yield ending, (self._join(form, tag, ending)[:-cut],)
        yield "시", (self._join(form, tag, "니까")[:-2],)
        for letter, ending, cut in (("ㄴ", "\u11ab", 0), ("ㄹ", "\u11af", 0), ("ㅁ", "\u11b7", 0)):
            yield letter, (self._join(form, tag, ending)[: -cut or None],)
        yield "ㅂ니다", (self._join(form, tag, "\u11b8니다")[:-2],)
        yield "ㅂ시다", (self._join(form, tag, "\u11b8시다")[:-2],)
        yield "는다", (self._join(form, tag, "\u11ab다")[:-1],)
        yield "어", tuple(dict.fromkeys((self._join(form, tag, "어"), *_uncontracted(form, "어"))))
        past = (self._join(form, tag, "었다")[:-1], *_uncontracted(form, "었"))
        yield "었다", tuple(dict.fromkeys(past))

    def _with_auxiliaries(self, stem: Stem) -> Iterator[str]:
        if stem.form in _AUXILIARIES and not stem.before:
            return
        joined = self._join(stem.form, stem.tag, "어")
        for auxiliary in _AUXILIARIES[:2] if stem.before else _AUXILIARIES:
            if stem.kind == "verb" or auxiliary == "지":
                yield from (joined + form for form in (auxiliary + "다", *self.verb_forms(auxiliary, "VX", "verb", 1)))


def _coda(word: str) -> int:
    """Return the number of the last syllable's final consonant, 0 for none."""
    return (ord(word[-1]) - ord("가")) % 28


def _uncontracted(form: str, ending: str) -> Iterator[str]:
    """Yield the long form beside 해, 돼, 봐, 줘: 하여, 되어, 보아, 주어."""
    vowel = (ord(form[-1]) - ord("가")) // 28 % 21
    if _coda(form) == 0 and form[-1] not in "오푸":
        if form[-1] == "하":
            yield form + ("여" if ending == "어" else "였")
        elif vowel == 8:  # ㅗ
            yield form + ("아" if ending == "어" else "았")
        elif vowel in (1, 5, 11, 13):  # ㅐ ㅔ ㅚ ㅜ
            yield form + ending


def _ranked_words(kiwi: _Kiwi, tables: _Tables) -> list[Word]:
    """Return the words of Kiwi's dictionary that wordfreq counted, or that it missed, the most frequent first."""
    frequencies = _frequencies()
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for form, tag, place in kiwi.morphemes():
        places[form].setdefault(tag, place)
    words = _words_of(places)
    by_form = _inflected(words, tables, frequencies)
    for entry, frequency in frequencies.items():
        found = [
            (1 / place, words.get(_key(entry, tag)) if _is_stem(tag) else None)
            for tag, place in places.get(entry, {}).items()
        ]
        found += [(_INFLECTED / word.place, word) for word in by_form.get(entry, ())]
        if not any(word for _, word in found) and (root := words.get(f"{entry}하-")):
            found.append((1 / root.place, root))
        total = sum(weight for weight, _ in found)
        for weight, word in found:
            if word is not None:
                word.score += frequency * weight / total
    _add_suffixed(words, kiwi)
    usual = median(word.score * word.place for word in words.values() if word.score)
    for word in words.values():
        tags = places.get(word.form, {})
        estimate = usual / word.place
        if word.place < MAX_PLACE and tags.keys() != {"NNP"}:
            # Compounds and verbs that MeCab cut in two: 나가다, 고등학교.
            word.score = max(word.score, estimate / 2)
        # wordfreq has many subtitles, and Kiwi was trained on books and news: with both, names weigh less.
        word.score = (word.score**2 * estimate) ** (1 / 3)
    return sorted(words.values(), key=lambda word: (-word.score, word.place))


def _frequencies() -> dict[str, float]:
    bins = wordfreq.read_cBpack(wordfreq.available_languages("best")["ko"])
    return {
        entry: 10 ** (-step / 100) for step, entries in enumerate(bins) for entry in entries if HANGUL.fullmatch(entry)
    }


def _is_stem(tag: str) -> bool:
    return tag in _PLAIN_TAGS or tag == "XR" or tag[:2] in _VERBS or tag == "VCN"


def _key(form: str, tag: str) -> str:
    """Return the key of a morpheme's word: a noun by itself, a verb as "가-", a root as "깨끗하-"."""
    return form if tag in _PLAIN_TAGS else f"{form}하-" if tag == "XR" else f"{form}-"


def _words_of(places: Mapping[str, Mapping[str, int]]) -> dict[str, Word]:
    """Return the words by their keys; a verb's stems are those of all its ways to be conjugated."""
    words: dict[str, Word] = {}
    for form, tags in places.items():
        for tag, place in tags.items():
            if not _is_stem(tag):
                continue
            word = words.setdefault(_key(form, tag), Word(form, place))
            word.place = min(word.place, place)
            if tag in _PLAIN_TAGS:
                word.stands_alone = True
            elif tag == "XR":
                word.stems.append(Stem(form, "하", "XSA", "adjective"))
            else:
                kinds = _DEFECTIVE.get(form, ("adjective",) if tag[:2] == "VA" or tag == "VCN" else ("verb",))
                word.stems += [stem for kind in kinds if (stem := Stem("", form, tag, kind)) not in word.stems]
        if form in words:
            words[form].is_adverb = tags.get("MAG") == words[form].place
        nouns = [place for tag, place in tags.items() if tag in _NOUNS]
        if nouns and form in words:
            # A rare noun beside a common adverb: 아주.
            words[form].noun_place = min(nouns) if min(nouns) < 30 * words[form].place else None
    return words


def _inflected(words: Mapping[str, Word], tables: _Tables, entries: Iterable[str]) -> dict[str, list[Word]]:
    """Return which of wordfreq's entries are forms of which words: 해, 했 (less the 다 of 했다), 한다."""
    known = frozenset(entries)
    found: dict[str, list[Word]] = defaultdict(list)
    for word in words.values():
        if not word.stands_alone and word.place < 60_000:
            for form in dict.fromkeys(tables.forms(word, 3_000)):
                past = form.removesuffix("다")
                for entry in {form, past} & known:
                    found[entry].append(word)
    return found


def _add_suffixed(words: dict[str, Word], kiwi: _Kiwi) -> None:
    """Give nouns their verbs, and their plural; a verb that is a word of its own (사랑하다) joins its noun."""
    for word in [word for word in words.values() if word.stands_alone and (word.score or word.place < MAX_PLACE)]:
        followers = kiwi.followers(word.noun_place or word.place)
        is_noun = word.noun_place is not None
        word.has_plural = is_noun and followers.get("들/XSN", 0) > MIN_PLURAL
        shares = ((noun, followers.get(f"{noun}/XSN", 0)) for noun in _NOUN_SUFFIXES)
        word.derived = {word.form + noun: share for noun, share in shares if share > MIN_SUFFIXED}
        for suffix, kind in _SUFFIXED.items():
            form, _, suffix_tag = suffix.partition("/")
            own = words.pop(f"{word.form}{form}-", None) if is_noun and len(word.form) > 1 else None
            if own is not None:
                word.score += own.score
                word.place = min(word.place, own.place)
                word.stems += [Stem(word.form, form, suffix_tag, stem.kind) for stem in own.stems]
            share = 1.0 if word.form in _WITH_HADA and suffix == "하/XSV" else followers.get(suffix, 0)
            if share > MIN_SUFFIXED:
                word.stems.append(Stem(word.form, form, suffix_tag, kind, share))
