"""The options by which commands name a word list: one of a service, or one of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from vocab.lists.wordlists import (
    NO_LANGUAGE,
    Unit,
    WordList,
    language_tag,
    load_word_list,
    paths_in,
    read_list_file,
    words_of_file,
)
from vocab.options import Segmentation
from vocab.text.changes import ListChanges
from vocab.text.forms import POSSESSIVE_LANGUAGES
from wordbound.cli import InputError

FolderOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--lists", metavar="DIR", envvar="WORDLIST_DIR", help="A folder of list files and files of levels."),
]


@dataclass(frozen=True)
class NamedList:
    """What names a word list on the command line; each command has those of the options that are of use to it."""

    lang: Annotated[
        str | None, typer.Option(metavar="TAG", help="The list of a language; with --list its rules of spelling.")
    ] = None
    words: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many of its words, the most frequent first; all, if not given."),
    ] = None
    level: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A named level instead of --words: top-1000, A2 (wordbound levels)."),
    ] = None
    list_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="A list of your own, one word a line.")
    ] = None
    extra_words: Annotated[Path | None, typer.Option(metavar="FILE", help="Words allowed besides, one a line.")] = None
    exclude_words: Annotated[Path | None, typer.Option(metavar="FILE", help="Words left out, in every form.")] = None
    segmentation: Annotated[
        Segmentation | None,
        typer.Option(help="Without spaces: each word the longest of the dictionary, or any way into listed words."),
    ] = None
    possessive: Annotated[
        bool | None,
        typer.Option(
            "--possessive/--no-possessive", help="English words may take 's; by default those of built-in lists."
        ),
    ] = None
    names: Annotated[
        list[str] | None, typer.Option("--names", metavar="NAME,…", help="Names and terms allowed besides.")
    ] = None
    safe: Annotated[bool, typer.Option("--safe/--no-safe", help="Leave profanity out of a built-in list.")] = True
    folder: FolderOption = None
    unit: Annotated[Unit, typer.Option(help="What N counts.")] = "form"

    def to_vocab(self) -> dict[str, Any]:
        """Build a request's ``vocab`` from the options, reading their word files.

        Raises:
            InputError: They name no list, or two.
            VocabularyError, OSError: A file cannot be read.
        """
        if self.lang is None and self.list_file is None and self.level is None:
            raise InputError("name a list: --lang TAG or --list FILE")
        if self.level is not None and (self.words is not None or self.list_file is not None):
            raise InputError("--level says which words count: leave --words and --list out")
        added = [*split_names(self.names), *_words_in(self.extra_words)]
        members = {
            "lang": self.lang,
            "n_words": self.words,
            "level": self.level,
            "words": _words_in(self.list_file) or None,
            "extra_words": added or None,
            "exclude_words": _words_in(self.exclude_words) or None,
            "segmentation": self.segmentation,
            "possessive": self.possessive,
        }
        return {name: value for name, value in members.items() if value is not None}

    def load(self) -> WordList:
        """Load the word list that the options name; of a level that is no band, the words of the level.

        Raises:
            typer.BadParameter: They name none, or do not go together.
            VocabularyError, OSError: There is no such list or folder, or it cannot be read.
        """
        # Named and not there: a mistake, whichever list is meant.
        paths_in(self.folder)
        if self.list_file is not None:
            if self.level is not None:
                raise typer.BadParameter("choose one of --list and --level")
            lang = NO_LANGUAGE if self.lang is None else language_tag(self.lang)
            word_list = read_list_file(self.list_file, lang)
        elif self.level is not None:
            from vocab.lists.levels import resolve_level

            if self.unit == "lemma":
                raise typer.BadParameter("choose one of --unit and --level")
            meant = resolve_level(self.level, self.lang, self.folder)
            if meant.words is not None:
                return WordList(meant.lang, meant.words, "file")
            word_list = load_word_list(meant.lang, self.folder, safe=self.safe)
        elif self.lang is not None:
            word_list = load_word_list(self.lang, self.folder, safe=self.safe)
        else:
            raise typer.BadParameter("name a list: --lang TAG or --list FILE")
        if self.unit == "form":
            return word_list
        from vocab.lists.lemmas import rank_by_lemma

        return rank_by_lemma(word_list)

    def num_words(self, word_list: WordList) -> int:
        """Return how many words of a list are allowed, by ``--words`` or ``--level``; else all of them.

        Raises:
            typer.BadParameter: Both options say it.
        """
        if self.level is None:
            return self.words or word_list.num_ranks
        from vocab.lists.levels import BANDS

        if self.words is not None:
            raise typer.BadParameter("choose one of --words and --level")
        return BANDS.get(self.level, word_list.num_ranks)

    def load_changes(self) -> ListChanges:
        """Read the files of extra and excluded words into the changes of a list."""
        return ListChanges(self._words(self.extra_words), self._words(self.exclude_words))

    def segmentation_of(self, word_list: WordList) -> Segmentation:
        """Return how texts of the list are cut into words.

        Raises:
            typer.BadParameter: ``--segmentation`` is given for a language with spaces.
        """
        if self.segmentation is not None and not word_list.is_unspaced:
            raise typer.BadParameter("--segmentation is for languages without spaces: zh, zh-Hant, ja, th")
        return self.segmentation or "longest"

    def possessive_of(self, word_list: WordList) -> bool | None:
        """Return whether words of the list may take 's; None for the default of the list.

        Raises:
            typer.BadParameter: ``--possessive`` is given for another language than English.
        """
        if self.possessive and word_list.language not in POSSESSIVE_LANGUAGES:
            raise typer.BadParameter("--possessive is for English: leave it out, or name the language by --lang en")
        return self.possessive

    def _words(self, path: Path | None) -> tuple[str, ...]:
        return () if path is None else words_of_file(path, self.lang)


ServiceList: TypeAlias = Annotated[
    NamedList, "lang", "words", "level", "list_file", "extra_words", "exclude_words", "segmentation", "possessive",
    "names",
]  # fmt: skip
"""Of a command that asks a service."""

LocalList: TypeAlias = Annotated[
    NamedList, "lang", "words", "level", "list_file", "extra_words", "exclude_words", "segmentation", "possessive",
    "safe", "folder", "unit",
]  # fmt: skip
"""Of a command that reads the list on this machine."""


def _words_in(path: Path | None) -> list[str]:
    return [] if path is None else list(words_of_file(path))


def split_names(names: Sequence[str] | None) -> list[str]:
    """Split the values of a repeated option such as ``--names`` at their commas."""
    return [word.strip() for name in names or () for word in name.split(",") if word.strip()]
