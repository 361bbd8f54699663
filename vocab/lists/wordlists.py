"""Ranked word lists: an operator's list file, the built-in list of a language, or the words of a request.

A list is found by name in a directory listing; no name is ever joined to a path. Nothing is cached.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from vocab.errors import (
    DocumentError,
    EmptyWordListError,
    InvalidWordListError,
    UnknownLanguageError,
    UnsupportedScriptError,
    WordListFolderError,
)
from vocab.lists.cleaned import FOLDER, cleaned_languages, read_list
from vocab.lists.tags import RENAMED, TRADITIONAL, read_tag

LIST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

NO_LANGUAGE: Final = "und"
"""The language of a list that names none ("undetermined" in ISO 639): no language's rules apply."""

_UNSPACED: Final = frozenset({"zh", "ja", "th"})
"""Languages written without spaces whose texts are segmented into words. Korean has spaces."""

_UNSUPPORTED_LANGUAGE: Final = re.compile(r"(yue|wuu|lo|km|my)(-[A-Z][a-z]{3})?(-[A-Z]{2}|-\d{3})?")
"""Tags of languages written without spaces that have no dictionary here; "my-words" is a list file's name, not
Burmese."""

Source = Literal["file", "cleaned", "inline"]
OWN_SOURCES: Final = frozenset({"file", "inline"})
"""Of lists that are taken as they are, for they are somebody's own; the others are built in."""

Unit = Literal["form", "lemma"]

BY_STEM: Final = "ko"
"""The language whose built-in list has the forms of a stem at one rank, whatever the unit."""


@dataclass(frozen=True)
class WordList:
    """Words in rank order.

    Attributes:
        lang: Name of the list, a language tag in most cases ("es", "pt-BR", "en_basic").
        words: NFC, without duplicates.
        source: Where the words come from.
        ranks: Rank of each word, ascending from 1 without holes, where several words share one (the forms of a
            lemma). None where the word of rank r is ``words[r - 1]``.
    """

    lang: str
    words: tuple[str, ...]
    source: Source
    ranks: tuple[int, ...] | None = None

    @property
    def num_ranks(self) -> int:
        """Return the largest rank, and so the largest N that makes a difference."""
        return len(self.words) if self.ranks is None else self.ranks[-1]

    @property
    def has_capitals(self) -> bool:
        """Return whether any word has a capital letter."""
        # A capital is a letter that has a small one: "ℝ" is none.
        return any(char.lower() != char for char in set("".join(self.words)))

    def ranked(self) -> Iterator[tuple[int, str]]:
        """Return pairs (rank, word) in rank order."""
        return enumerate(self.words, start=1) if self.ranks is None else zip(self.ranks, self.words, strict=True)

    def up_to(self, n_words: int) -> "WordList":
        """Return the list of the words of rank ``n_words`` and better."""
        if n_words >= self.num_ranks:
            return self
        if self.ranks is None:
            return replace(self, words=self.words[:n_words])
        num_words = bisect_right(self.ranks, n_words)
        return replace(self, words=self.words[:num_words], ranks=self.ranks[:num_words])

    def needed_up_to(self, n_words: int) -> "WordList":
        """Return what texts of the first ``n_words`` ranks need: those, or all words where texts are cut by them."""
        return self if self.is_unspaced else self.up_to(n_words)

    def without(self, words: Container[str]) -> "WordList":
        """Return the list without some words; those after them move up."""
        kept = [(rank, word) for rank, word in self.ranked() if word not in words]
        if self.ranks is None:
            return replace(self, words=tuple(word for _, word in kept))
        places = {rank: place for place, rank in enumerate(dict.fromkeys(rank for rank, _ in kept), start=1)}
        return replace(self, words=tuple(word for _, word in kept), ranks=tuple(places[rank] for rank, _ in kept))

    @property
    def language(self) -> str:
        """Return the first subtag of ``lang``, which decides the rules of spelling: "en" of "en_basic"."""
        return language_of(self.lang)

    @property
    def is_unspaced(self) -> bool:
        """Return whether it is of a language written without spaces, whose words are written as listed."""
        return unspaced_language(self.lang) is not None

    @cached_property
    def digest(self) -> str:
        """Return the sha256 of name, words and ranks, not of the source: 64 hex digits."""
        # No word and no name contains a line break, so the joined bytes are unambiguous.
        sha = hashlib.sha256("\n".join((self.lang, *self.words)).encode())
        if self.ranks is not None:
            sha.update(("\n\n" + " ".join(map(str, self.ranks))).encode())
        return sha.hexdigest()


def known_languages(wordlist_dir: Path | None) -> list[str]:
    """Return the names of all lists, sorted; ``list_name`` finds one of them."""
    names = {*list_files(wordlist_dir), *cleaned_languages()}
    return sorted(name for name in names if not _UNSUPPORTED_LANGUAGE.fullmatch(name))


def load_word_list(lang: str, wordlist_dir: Path | None, *, safe: bool = True) -> WordList:
    """Load a list by name: a list file, or else a built-in list.

    Args:
        lang: Its name, or a language tag, as ``list_name`` reads it.
        wordlist_dir: The folder of list files.
        safe: Whether to leave profanity out of a built-in list. Files are read as they are.

    Raises:
        UnsupportedScriptError: A language written without spaces that has no dictionary here.
        UnknownLanguageError: No list of that name.
        InvalidWordListError: A line of the file cannot be a word.
        EmptyWordListError: No word is left.
        WordListFolderError: As ``paths_in``.
    """
    lang = list_name(lang, wordlist_dir)
    files = list_files(wordlist_dir)
    if lang in files:
        return read_list_file(files[lang], lang)
    words, ranks = read_list(FOLDER / f"{lang}.xz", safe=safe)
    return WordList(lang, words, "cleaned", ranks)


def reference_dictionary(lang: str) -> tuple[str, ...]:
    """Return the words that a text of an unspaced language is segmented into, in rank order.

    They are the language's whole built-in list, unsafe words included, and of traditional Chinese also the simplified
    one: 最后 is no 最 and 后. ``lang`` is any name of ``unspaced_language``. Nothing is cached.

    Raises:
        UnknownLanguageError: ``lang`` is no unspaced language.
    """
    language = unspaced_language(lang)
    if language is None:
        raise UnknownLanguageError(f"There is no reference dictionary of {lang[:40]!r}, only of zh, zh-Hant, ja, th.")
    words = load_word_list(language, None, safe=False).words
    if language != "zh-Hant":
        return words
    return tuple(dict.fromkeys((*words, *load_word_list("zh", None, safe=False).words)))


def inline_word_list(words: Sequence[str], lang: str | None) -> WordList:
    """Make a list of a request's own words, in their order.

    Args:
        words: At least one; cleaned with ``clean_words``.
        lang: Tag of the language whose rules of spelling apply (elisions, the possessive, Turkish capitals), which
            needs no list of its own; None for no language, which admits words of any script.

    Raises:
        InvalidWordListError: An entry cannot be a word.
        EmptyWordListError: No words.
        UnknownLanguageError, UnsupportedScriptError: As ``language_tag``.
    """
    lang = None if lang is None else language_tag(lang)
    # Only what is given by hand is looked at: a check of a text with a language's list loads none of it.
    from vocab.lists.entries import clean_words

    cleaned = clean_words(words, "words", unspaced_language(lang))
    if not cleaned:
        raise EmptyWordListError("The list has no words: name at least one, the most frequent first.")
    return WordList(lang or NO_LANGUAGE, cleaned, "inline")


def words_with(word_list: WordList, part: str) -> list[tuple[int, str]]:
    """Search a list for words with ``part`` in them, in any capitals; return pairs of rank and word.

    First come those that begin with it, then the others, each in rank order; all in rank order where it is empty.
    """
    part = part.casefold()
    if not part:
        return list(word_list.ranked())
    found = [
        (not folded.startswith(part), rank, word)
        for rank, word in word_list.ranked()
        if part in (folded := word.casefold())
    ]
    return [(rank, word) for _, rank, word in sorted(found, key=lambda one: one[0])]


def language_tag(lang: str) -> str:
    """Return a language's tag in its usual spelling: "he-IL" for "IW-il". No list is needed; the name of one stays.

    Raises:
        UnknownLanguageError: It is no name of a list either.
        UnsupportedScriptError: As ``check_supported``.
    """
    if not LIST_NAME.fullmatch(lang):
        raise UnknownLanguageError(f"{lang[:40]!r} is no language tag: write one such as 'es' or 'pt-BR'.")
    if tag := read_tag(lang):
        lang = str(tag._replace(language=RENAMED.get(tag.language, tag.language)))
    check_supported(lang)
    return lang


def list_name(lang: str, wordlist_dir: Path | None) -> str:
    """Return the name of the list that a list's name or a language tag means, without reading the list.

    A list of exactly that name goes first. A tag means, in any capitals, the list of that tag, or else of its language:
    "EN" and "en-US" mean "en", "no" means "nb", "zh-TW" means "zh-Hant". No other name means another list.

    Raises:
        UnknownLanguageError, UnsupportedScriptError, WordListFolderError: As ``load_word_list``.
    """
    known = known_languages(wordlist_dir)
    name = _find_name(lang, known)
    if name is None:
        check_supported(str(read_tag(lang) or lang))
        shown = lang if len(lang) <= 40 else lang[:40] + "…"
        raise UnknownLanguageError(
            f"There is no word list {shown!r}{_advice(lang, known)}. Known languages: {', '.join(known)}."
        )
    return name


def _find_name(lang: str, known: Sequence[str]) -> str | None:
    if lang in known:
        return lang
    tag = read_tag(lang)
    by_tag = {name.lower(): name for name in known}
    names = () if tag is None else (by_tag.get(name.lower()) for name in tag.lists())
    return next(filter(None, names), None)


def _advice(lang: str, known: Sequence[str]) -> str:
    """Return what to do about a name that means no list, to be read after it."""
    hyphenated = lang.replace("_", "-")
    if _find_name(hyphenated, known) is not None:
        return f": write {hyphenated!r}, with hyphens"
    tag = read_tag(lang)
    if tag is not None and tag.script is not None and _find_name(tag.language, known) is not None:
        return f": the list of {tag.language!r} is not in the script {tag.script!r}, so write {tag.language!r} for it"
    return f": choose another, or bring {lang}.txt for the folder WORDLIST_DIR" if LIST_NAME.fullmatch(lang) else ""


def check_supported(lang: str) -> None:
    """Raise ``UnsupportedScriptError`` for the tag of an unspaced language that has no dictionary here."""
    if _UNSUPPORTED_LANGUAGE.fullmatch(lang):
        raise UnsupportedScriptError(
            f"The language {lang!r} is written without spaces between words, and there is no dictionary to find its "
            "words with. Of such languages choose zh, zh-Hant, ja or th."
        )


def unspaced_language(name: str | None) -> str | None:
    """Return which unspaced language a list's name means: "zh", "zh-Hant", "ja" or "th"; None for any other or none.

    A tag ("zh-TW", "ja-JP") and the name of a list file that begins with one ("zh-Hant_school", "ja_n5") count alike.
    """
    language, *subtags = (name or "").partition("_")[0].split("-")
    language = language.lower()
    if language not in _UNSPACED:
        return None
    scripts_and_regions = {subtag.upper() for subtag in subtags}
    is_traditional = "HANT" in scripts_and_regions or (
        "HANS" not in scripts_and_regions and not TRADITIONAL.isdisjoint(scripts_and_regions)
    )
    return "zh-Hant" if language == "zh" and is_traditional else language


def language_of(name: str) -> str:
    """Return the first subtag of a list's name, in lower case; an unspaced language by its own name: "zh-Hant"."""
    return unspaced_language(name) or re.split("[-_]", name, maxsplit=1)[0].lower()


def list_files(wordlist_dir: Path | None) -> dict[str, Path]:
    """Return the list files in a folder, by name; none without a folder.

    Raises:
        WordListFolderError: As ``paths_in``.
    """
    return {
        path.stem: path
        for path in paths_in(wordlist_dir)
        if path.suffix == ".txt" and LIST_NAME.fullmatch(path.stem) and path.is_file()
    }


def paths_in(wordlist_dir: Path | None) -> list[Path]:
    """Return what lies in the folder of list files; nothing without a folder.

    Raises:
        WordListFolderError: The folder is not there, or cannot be read: a built-in list would be served in its place.
    """
    if wordlist_dir is None:
        return []
    try:
        return list(wordlist_dir.iterdir())
    except OSError as error:
        raise WordListFolderError(
            f"The folder of word lists {str(wordlist_dir)!r} (WORDLIST_DIR) cannot be read: {error.strerror}. Name the "
            "folder that has them, or leave it out for the built-in lists."
        ) from None


def read_list_file(path: Path, name: str) -> WordList:
    """Read a list file, in its order: words one a line, or what ``list_reader`` makes of a table.

    Words of one row share a rank with their forms. Apostrophes, hyphens and wide letters are read as the usual ones.

    Args:
        path: The file.
        name: The list's, which may begin with its language.

    Raises:
        InvalidWordListError: The file cannot be read, or a row of it cannot be a word.
        EmptyWordListError: No word is left.
    """
    # Only a file needs what reads it.
    from vocab.lists.list_reader import read_list
    from vocab.lists.tables import read_bytes

    language = language_of(name)
    try:
        read = read_list(read_bytes(path), path.name, "" if language == NO_LANGUAGE else language)
    except DocumentError as error:
        raise InvalidWordListError(f"{path.name}, {error}.") from None
    if fault := next((row for row in read.left_out if row.is_fault), None):
        raise InvalidWordListError(f"{path.name}, line {fault.line}: {fault.reason}")
    if not read.entries:
        raise EmptyWordListError(f"There is no word in {path.name}: write one word a line, the most frequent first.")
    ranks = dict[str, int]()
    for entry in read.entries:
        for word in (entry.word, *entry.forms):
            ranks.setdefault(word, entry.rank)
    places = {rank: place for place, rank in enumerate(dict.fromkeys(ranks.values()), start=1)}
    has_own = len(places) == len(ranks)
    return WordList(name, tuple(ranks), "file", None if has_own else tuple(places[rank] for rank in ranks.values()))


def words_of_file(path: Path, lang: str | None = None) -> tuple[str, ...]:
    """Read the words of a file as ``read_list_file`` does."""
    return read_list_file(path, lang or NO_LANGUAGE).words
