"""``wordbound grammar``: write the grammar of a word list for other engines."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vocab.errors import VocabularyError
from vocab.options import DEFAULT_OPTIONS, Case, End, Layout, ListOptions, Punctuation
from vocab.text.grammar import Dialect, write_grammar
from wordbound.cli.lists import LocalListOptions


def grammar(
    named: LocalListOptions,
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
    try:
        word_list = named.load()
        options = ListOptions(case, layout, numbers, punctuation, end)
        changes = named.load_changes()
        text = write_grammar(word_list, options, named.num_words(word_list), changes, dialect)
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8", newline="\n")
    except (VocabularyError, OSError) as error:
        print(f"wordbound grammar: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
