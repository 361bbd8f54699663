"""``wordbound grammar``: write the grammar of a word list for other engines."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vocab.errors import VocabularyError
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
from vocab.options import DEFAULT_OPTIONS, Case, End, Layout, ListOptions, Punctuation
from vocab.text.changes import ListChanges
from vocab.text.export import Dialect, write_grammar


def grammar(
    lang: Annotated[
        str | None, typer.Option(metavar="TAG", help="The list of a language; with --list its rules of spelling.")
    ] = None,
    source: Annotated[AskedSource, typer.Option(help="wordfreq: the raw list, instead of the cleaned one.")] = "auto",
    safe: Annotated[bool, typer.Option("--safe/--no-safe", help="Leave profanity out of a cleaned list.")] = True,
    list_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="A list file instead of a language's list.")
    ] = None,
    words: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many of its words; all, if not given.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="What N counts.")] = "form",
    extra_words: Annotated[Path | None, typer.Option(metavar="FILE", help="Words allowed besides, whatever N.")] = None,
    exclude_words: Annotated[Path | None, typer.Option(metavar="FILE", help="Words left out, in every form.")] = None,
    case: Annotated[Case, typer.Option(help="Where capitals may stand.")] = "auto",
    numbers: Annotated[bool, typer.Option("--numbers", help="Allow numbers in digits.")] = False,
    punctuation: Annotated[Punctuation, typer.Option(help="Which marks.")] = DEFAULT_OPTIONS.punctuation,
    layout: Annotated[Layout, typer.Option(help="Where lines may break.")] = "prose",
    end: Annotated[End, typer.Option(help="What a text ends with.")] = "word",
    dialect: Annotated[
        Dialect, typer.Option(help="ebnf: for xgrammar, vLLM and llama.cpp; lark: for llguidance.")
    ] = "ebnf",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; standard output, if not given.")
    ] = None,
) -> None:
    """Write the grammar of all texts that a word list allows.

    A list file has one word a line, the most frequent first; empty lines and lines with # are left out.
    """
    if lang is None and list_file is None:
        raise typer.BadParameter("name a list: --lang TAG or --list FILE")
    try:
        word_list = _word_list(lang, list_file, source, safe)
        if unit == "lemma":
            word_list = group_by_lemma(word_list)
        options = ListOptions(case, layout, numbers, punctuation, end)
        changes = ListChanges(_words(extra_words), _words(exclude_words))
        text = write_grammar(word_list, options, words or word_list.num_ranks, changes, dialect)
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8", newline="\n")
    except (VocabularyError, OSError) as error:
        print(f"wordbound grammar: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _word_list(lang: str | None, path: Path | None, source: AskedSource, safe: bool) -> WordList:
    if path is None:
        return load_word_list(str(lang), None, source=source, safe=safe)
    if lang is not None:
        check_language(lang)
    return WordList(lang or NO_LANGUAGE, words_of_file(path), "file")


def _words(path: Path | None) -> tuple[str, ...]:
    return () if path is None else words_of_file(path)
