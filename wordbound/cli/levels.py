"""``wordbound levels``, ``words`` and ``grammar``: named levels, and the words of a list, as a table or a grammar."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from vocab.csv_cells import write_csv
from vocab.errors import VocabularyError
from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.levels import (
    BANDS,
    FAMILIES,
    Family,
    find_level_file,
    languages_here,
    levels_of,
    read_levels,
    rows_of_family,
    with_japanese_forms,
    write_levels,
)
from vocab.lists.list_reader import LeftOut, read_list
from vocab.lists.tables import read_bytes, read_sheets
from vocab.lists.wordlists import language_of, language_tag, paths_in, reference_dictionary, words_with
from vocab.options import DEFAULT_OPTIONS, Case, End, Layout, ListOptions, Punctuation
from vocab.readings import check_readings, reading_of
from vocab.text.grammar import Dialect, write_grammar
from wordbound.cli import InputError
from wordbound.cli.options import FolderOption, LocalList, NamedList

LeftOutOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where to write, as CSV, the rows of which no word was taken.")
]

_BY_NAME: Final = {family.name: family for family in FAMILIES}


def levels(
    folder: FolderOption = None,
    lang: Annotated[str | None, typer.Option(metavar="TAG", help="Of which language.")] = None,
    imported: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="A published list (CSV, TSV, XLSX) to be made a file of levels."),
    ] = None,
    family: Annotated[str | None, typer.Option(metavar="NAME", help="Which list that is.")] = None,
    forms: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A table of words and their forms, a row for each word.")
    ] = None,
    word_column: Annotated[str | None, typer.Option(metavar="NAME", help="Where its words are.")] = None,
    level_column: Annotated[str | None, typer.Option(metavar="NAME", help="Where its levels are.")] = None,
    left_out: LeftOutOption = None,
) -> None:
    """Levels are what --level and vocab.level may name; --import makes the file of one.

    It is written into the folder of --lists, or the current one.
    """
    if imported is None:
        _show(folder, None if lang is None else language_of(language_tag(lang)))
        return
    if (meant := _BY_NAME.get(family or "")) is None:
        raise typer.BadParameter(f"--import needs --family, one of {', '.join(_BY_NAME)}")
    language = lang or meant.only_language
    if language is None:
        raise typer.BadParameter(f"--family {family} needs --lang TAG")
    try:
        language = language_of(language_tag(language))
        by_word = {} if forms is None else _word_families(forms)
        read = read_list(read_bytes(imported), imported.name, language, word_column, level_column)
        rows, not_taken = rows_of_family(read, meant, language, by_word)
        if language == "ja":
            rows = with_japanese_forms(rows, frozenset(reference_dictionary(language)))
    except VocabularyError as error:
        raise InputError(f"{imported}: {error}") from None
    output = (folder or Path()) / meant.file_name(language)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(write_levels(rows), encoding="utf-8", newline="\n")
    print(f"The words are their owners': licence {meant.licence} ({meant.where}).", file=sys.stderr)
    print(f"{output}: {_sizes(meant, output)}")
    _report_left_out(not_taken, left_out)


def _word_families(path: Path) -> dict[str, list[str]]:
    """Map each word to its other forms, from rows of a word and its forms."""
    filled = [
        [cell for cell in map(str.strip, row.cells) if cell]
        for sheet in read_sheets(read_bytes(path), path.name)[0]
        for row in sheet.rows
    ]
    return {cells[0]: cells[1:] for cells in filled if cells}


def _report_left_out(rows: Sequence[LeftOut], path: Path | None) -> None:
    """Say how many rows were left out, and write them as CSV if a file is named."""
    if path is not None:
        table = [("sheet", "line", "text", "reason"), *((row.sheet, row.line, row.text, row.reason) for row in rows)]
        path.write_text(write_csv(table), encoding="utf-8-sig", newline="\n")
    if rows:
        where = "--left-out FILE.csv writes them" if path is None else str(path)
        num_twice = sum(row.reason.startswith("as in line") for row in rows)
        print(f"{len(rows):,} rows left out, {num_twice:,} of them of words that came before: {where}", file=sys.stderr)


def _show(folder: Path | None, lang: str | None) -> None:
    paths_in(folder)
    print(f"{' '.join(BANDS)}\n  any language: the first words of its own list")
    for family in FAMILIES:
        if lang is not None and family.languages and lang not in family.languages:
            continue
        languages = [lang] if lang else family.languages or languages_here(family, folder)
        shown = ", ".join(languages) or "any language"
        print(f"{' '.join(family.level_names)}\n  {shown}: {family.title} (licence: {family.licence})")
        missing = []
        for language in languages:
            if path := find_level_file(family, language, folder):
                print(f"  {path}: {_sizes(family, path)}")
            else:
                missing.append(family.file_name(language))
        if missing or not languages:
            names = ", ".join(missing) or family.file_name("LANGUAGE")
            print(f"  not here: {names} ({family.where}; --import FILE --family {family.name})")


def _sizes(family: Family, path: Path) -> str:
    rows = read_levels(path)
    if not (levels := levels_of(family, rows)):
        return f"{len(rows):,} words"
    return ", ".join(
        f"{family.prefix}{level}: {sum(row.level in levels[:number] for row in rows):,} words"
        for number, level in enumerate(levels, start=1)
    )


def words(
    lang: Annotated[str | None, typer.Argument(metavar="LANG", help="The list of a language, or of that name.")] = None,
    find: Annotated[str, typer.Option(metavar="TEXT", help="Only words that have it in them, in any capitals.")] = "",
    *,
    named: Annotated[NamedList, "level", "list_file", "safe", "folder", "unit"],
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="How many to pass over.")] = 0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many at most; all, if not given.")] = None,
    readings: Annotated[
        bool, typer.Option("--readings", help="How words are read: Chinese in pinyin, Japanese in hiragana.")
    ] = False,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="As --list.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say instead what is understood of --file, and each row left out.")
    ] = False,
    left_out: LeftOutOption = None,
) -> None:
    """A line each: rank, word, lemma and, with --readings, how it is read, with tabs between them.

    With --find those that begin so come first.
    """
    named = replace(named, lang=lang, list_file=file or named.list_file)
    if explain or left_out is not None:
        if named.list_file is None:
            raise typer.BadParameter("--explain and --left-out need --file")
        _explain(named.list_file, lang, left_out)
        return
    word_list = named.load()
    if readings:
        check_readings(word_list.language)
    found = words_with(word_list.up_to(named.num_words(word_list)), find)
    lemmas = KnownLemmas.of_language(word_list.language)
    for rank, word in found[offset : None if limit is None else offset + limit]:
        reading = f"\t{reading_of(word, word_list.language) or ''}" if readings else ""
        sys.stdout.write(f"{rank}\t{word}\t{lemmas.of(word) or ''}{reading}\n")


def _explain(path: Path, lang: str | None, left_out: Path | None) -> None:
    """Print what is understood of a file of words; write the rows left out as CSV if asked."""
    try:
        read = read_list(read_bytes(path), path.name, "" if lang is None else language_of(language_tag(lang)))
    except VocabularyError as error:
        raise InputError(f"{path}: {error}") from None
    num_forms = sum(len(entry.forms) for entry in read.entries)
    print(f"{path}: {len(read.entries):,} words, {num_forms:,} forms beside them; {read.encoding or 'XLSX'}")
    columns = [f"{role}: {column}" for role, column in read.columns.items()]
    for title, found in (("columns", columns), ("levels", read.levels), ("understood", read.shapes)):
        if found:
            print(f"{title}: {', '.join(found)}")
    for entry in read.entries[:_FIRST_SHOWN]:
        print("\t".join((str(entry.rank), entry.word, ", ".join(entry.levels), ", ".join(entry.forms))).rstrip())
    for row in read.left_out:
        print(f"left out: {f'{row.sheet}, ' if row.sheet else ''}line {row.line}: {row.text[:80]!r}: {row.reason}")
    _report_left_out(read.left_out, left_out)


_FIRST_SHOWN: Final = 20


def grammar(
    named: LocalList,
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
    """A list file has one word a line, the most frequent first; empty lines and lines with # are left out."""
    word_list = named.load()
    segmentation = named.segmentation_of(word_list)
    options = ListOptions(case, layout, numbers, punctuation, end, segmentation, named.possessive_of(word_list))
    text = write_grammar(word_list, options, named.num_words(word_list), named.load_changes(), dialect)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8", newline="\n")
