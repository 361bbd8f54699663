"""The command ``python -m vocab.export``: write the grammar of a list for other engines.

    python -m vocab.export --lang es --words 3000 --numbers --end sentence -o es-3000.ebnf

``--dialect ebnf``, the default, is for xgrammar and llama.cpp (GBNF; build 11549 agrees with our definition on all
texts of the tests). ``--dialect lark`` is for llguidance, whose own conversion of GBNF reads word by word and greedily,
and so refuses allowed texts: "3.", or "in the" where "in front of" is listed. `docs/other-engines.md` shows each.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

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
from vocab.text.ebnf import write_ebnf

_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\])')
"""A string or a class of characters; splitting by it leaves names and operators between them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_TEXT: Final = "TEXT"
"""Stands for the EBNF's ``root``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 with a line on standard error that says what to change."""
    command = parser()
    asked = command.parse_args(arguments)
    if asked.lang is None and asked.list is None:
        command.error("name a list: --lang TAG or --list FILE")
    try:
        grammar = _grammar(asked)
        if asked.output is None:
            sys.stdout.write(grammar)
        else:
            asked.output.write_text(grammar, encoding="utf-8", newline="\n")
    except (VocabularyError, OSError) as error:
        print(f"vocab.export: {error}", file=sys.stderr)
        return 2
    return 0


def _grammar(asked: argparse.Namespace) -> str:
    options = ListOptions(asked.case, asked.layout, asked.numbers, asked.punctuation, asked.end)
    word_list = _word_list(asked)
    changes = ListChanges(_words(asked.extra_words), _words(asked.exclude_words))
    changes.check(word_list.language)
    ebnf = write_ebnf(word_list, options, asked.words or word_list.num_ranks, changes)
    return ebnf_to_lark(ebnf) if asked.dialect == "lark" else ebnf


def _word_list(asked: argparse.Namespace) -> WordList:
    lang, path = asked.lang, asked.list
    if path is None:
        word_list = load_word_list(str(lang), None, source=asked.source, safe=asked.safe)
    else:
        if lang is not None:
            check_language(lang)
        word_list = WordList(lang or NO_LANGUAGE, words_of_file(path), "file")
    return group_by_lemma(word_list) if asked.unit == "lemma" else word_list


def _words(path: Path | None) -> tuple[str, ...]:
    return () if path is None else words_of_file(path)


def _number_of_words(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of words: write 1 or more")
    return number


def parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m vocab.export",
        description="Writes the grammar of all texts that a word list allows.",
        epilog="A list file has one word a line, the most frequent first; empty lines and lines with # are left out.",
    )
    command.add_argument("--lang", metavar="TAG", help="the list of a language; with --list its rules of spelling")
    command.add_argument(
        "--source",
        choices=get_args(AskedSource),
        default="auto",
        help="wordfreq: the raw list (default: the cleaned one)",
    )
    command.add_argument(
        "--safe", action=argparse.BooleanOptionalAction, default=True, help="leave profanity out of a cleaned list"
    )
    command.add_argument("--list", type=Path, metavar="FILE", help="a list file instead of a language's list")
    command.add_argument("--words", type=_number_of_words, metavar="N", help="how many of its words (default: all)")
    command.add_argument("--unit", choices=get_args(Unit), default="form", help="what N counts (default: %(default)s)")
    command.add_argument("--extra-words", type=Path, metavar="FILE", help="words allowed besides, whatever N")
    command.add_argument("--exclude-words", type=Path, metavar="FILE", help="words left out, in every form")
    command.add_argument(
        "--case", choices=get_args(Case), default="auto", help="where capitals may stand (%(default)s)"
    )
    command.add_argument("--numbers", action="store_true", help="allow numbers in digits")
    command.add_argument(
        "--punctuation",
        choices=get_args(Punctuation),
        default=DEFAULT_OPTIONS.punctuation,
        help="which marks (%(default)s)",
    )
    command.add_argument(
        "--layout", choices=get_args(Layout), default="prose", help="where lines may break (%(default)s)"
    )
    command.add_argument("--end", choices=get_args(End), default="word", help="what a text ends with (%(default)s)")
    command.add_argument("--dialect", choices=("ebnf", "lark"), default="ebnf", help="of the grammar (%(default)s)")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to (default: standard output)")
    return command


def ebnf_to_lark(ebnf: str) -> str:
    """Rewrite a grammar of ``write_ebnf`` in Lark's syntax."""
    rules = (line.split(" ::= ", 1) for line in ebnf.removesuffix("\n").split("\n"))
    return f"start: {_TEXT}\n" + "".join(f"{_terminal(name)}: {_body(body)}\n" for name, body in rules)


def _terminal(name: str) -> str:
    return _TEXT if name == "root" else name.upper().replace("-", "_")


def _body(body: str) -> str:
    parts = _QUOTED.split(body)
    parts[::2] = [_NAME.sub(lambda name: _terminal(name[0]), part) for part in parts[::2]]
    parts[1::2] = [part if part[0] == '"' else _regex(part) for part in parts[1::2]]
    return "".join(parts)


def _regex(characters: str) -> str:
    # In a regular expression a bracket inside a class is escaped.
    return "/[" + characters[1:-1].replace("[", "\\[") + "]/"
