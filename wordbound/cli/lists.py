"""The options that name a word list, the same for every command."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import (
    NO_LANGUAGE,
    AskedSource,
    Unit,
    WordList,
    check_language,
    load_word_list,
    words_of_file,
)
from vocab.text.changes import ListChanges

LangOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TAG", help="The list of a language; with --list its rules of spelling.")
]
SourceOption: TypeAlias = Annotated[
    AskedSource, typer.Option(help="wordfreq: the raw list, instead of the cleaned one.")
]
SafeOption: TypeAlias = Annotated[bool, typer.Option("--safe/--no-safe", help="Leave profanity out of a cleaned list.")]
ListOption: TypeAlias = Annotated[
    Path | None, typer.Option("--list", metavar="FILE", help="A list file instead of a language's list.")
]
WordsOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="How many of its words; all, if not given.")
]
UnitOption: TypeAlias = Annotated[Unit, typer.Option(help="What N counts.")]
ExtraWordsOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Words allowed besides, whatever N.")
]
ExcludeWordsOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Words left out, in every form.")
]


def named_list(lang: str | None, path: Path | None, source: AskedSource, safe: bool, unit: Unit) -> WordList:
    """Return the list that the options name.

    Raises:
        typer.BadParameter: They name none.
        VocabularyError, OSError: There is no such list, or it cannot be read.
    """
    if path is not None:
        if lang is not None:
            check_language(lang)
        word_list = WordList(lang or NO_LANGUAGE, words_of_file(path), "file")
    elif lang is not None:
        word_list = load_word_list(lang, None, source=source, safe=safe)
    else:
        raise typer.BadParameter("name a list: --lang TAG or --list FILE")
    return group_by_lemma(word_list) if unit == "lemma" else word_list


def named_changes(extra_words: Path | None, exclude_words: Path | None) -> ListChanges:
    """Return the changes whose words are in files."""
    return ListChanges(_words(extra_words), _words(exclude_words))


def _words(path: Path | None) -> tuple[str, ...]:
    return () if path is None else words_of_file(path)
