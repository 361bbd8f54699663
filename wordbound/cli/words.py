"""``wordbound words``: the words of a list, with their ranks and lemmas."""

import sys
from typing import Annotated

import typer

from vocab.errors import VocabularyError
from vocab.lists.lemmas import KnownLemmas
from vocab.lists.wordlists import words_with
from wordbound.cli.commands import InputError
from wordbound.cli.lists import (
    FolderOption,
    LevelOption,
    ListOption,
    SafeOption,
    SourceOption,
    UnitOption,
    load_named_list,
    num_words,
)


def words(
    lang: Annotated[str | None, typer.Argument(metavar="LANG", help="The list of a language, or of that name.")] = None,
    find: Annotated[str, typer.Option(metavar="TEXT", help="Only words that have it in them, in any capitals.")] = "",
    source: SourceOption = "auto",
    safe: SafeOption = True,
    list_file: ListOption = None,
    level: LevelOption = None,
    folder: FolderOption = None,
    unit: UnitOption = "form",
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="How many to pass over.")] = 0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many at most; all, if not given.")] = None,
) -> None:
    """List the words of a list, with their ranks and lemmas.

    A line each: rank, word and lemma, with tabs between them. With --find those that begin so come first.
    """
    try:
        word_list = load_named_list(lang, list_file, source, safe, unit, level, folder)
    except (VocabularyError, OSError) as error:
        raise InputError(str(error)) from None
    found = words_with(word_list.up_to(num_words(word_list, None, level)), find)
    lemmas = KnownLemmas.of_language(word_list.language)
    for rank, word in found[offset : None if limit is None else offset + limit]:
        sys.stdout.write(f"{rank}\t{word}\t{lemmas.of(word) or ''}\n")
