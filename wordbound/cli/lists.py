"""The options that name a word list of this machine, the same for every command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from vocab.lists.lemmas import group_by_lemma
from vocab.lists.levels import BANDS, resolve_level
from vocab.lists.wordlists import (
    NO_LANGUAGE,
    AskedSource,
    Unit,
    WordList,
    check_language,
    load_word_list,
    paths_in,
    unspaced_language,
    words_of_file,
)
from vocab.options import Segmentation
from vocab.text.changes import ListChanges
from wordbound.cli.options import BaseListOptions

SourceOption: TypeAlias = Annotated[
    AskedSource, typer.Option(help="wordfreq: the raw list, instead of the cleaned one.")
]
SafeOption: TypeAlias = Annotated[bool, typer.Option("--safe/--no-safe", help="Leave profanity out of a cleaned list.")]
FolderOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--lists", metavar="DIR", envvar="WORDLIST_DIR", help="A folder of list files and files of levels."),
]
UnitOption: TypeAlias = Annotated[Unit, typer.Option(help="What N counts.")]


@dataclass(frozen=True)
class LocalListOptions(BaseListOptions):
    """The options of a command that reads a word list on this machine."""

    source: SourceOption = "auto"
    safe: SafeOption = True
    folder: FolderOption = None
    unit: UnitOption = "form"

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
            if self.lang is not None:
                check_language(self.lang)
            word_list = WordList(self.lang or NO_LANGUAGE, self._words(self.list_file), "file")
        elif self.level is not None:
            if self.unit == "lemma":
                raise typer.BadParameter("choose one of --unit and --level")
            meant = resolve_level(self.level, self.lang, self.folder)
            if meant.words is not None:
                return WordList(meant.lang, meant.words, "file")
            word_list = load_word_list(meant.lang, self.folder, source=self.source, safe=self.safe)
        elif self.lang is not None:
            word_list = load_word_list(self.lang, self.folder, source=self.source, safe=self.safe)
        else:
            raise typer.BadParameter("name a list: --lang TAG or --list FILE")
        return group_by_lemma(word_list) if self.unit == "lemma" else word_list

    def num_words(self, word_list: WordList) -> int:
        """Return how many words of a list are allowed, by ``--words`` or ``--level``; else all of them.

        Raises:
            typer.BadParameter: Both options say it.
        """
        if self.words is not None and self.level is not None:
            raise typer.BadParameter("choose one of --words and --level")
        return self.words or BANDS.get(self.level or "") or word_list.num_ranks

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

    def _words(self, path: Path | None) -> tuple[str, ...]:
        """Read a file of words of the options' language; none without a file."""
        return () if path is None else words_of_file(path, unspaced_language(self.lang))
