"""``wordbound check``: which words of a text are in a list, and where those are that are not."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vocab.documents import MAX_FILE_BYTES, text_of
from vocab.errors import DocumentError, EmptyWordListError, StructureError
from vocab.lists.wordlists import WordList, load_word_list, words_of_file
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.changes import ListChanges, PromptWord, words_and_forms
from vocab.text.checker import ListForms, TextChecker
from vocab.text.formats import FORMATS, NamedReport, TextLines, format_counts, percent, render_reports, why
from vocab.text.report import CheckedWord, TextReport
from wordbound.cli import DONE, NOT_AS_ASKED, STANDARD_INPUT
from wordbound.cli.options import LocalList, NamedList


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Plain text in UTF-8, Markdown, HTML, subtitles, DOCX, ODT, EPUB or PDF; - is standard input.",
        ),
    ],
    named: LocalList,
    numbers: Annotated[bool, typer.Option("--numbers/--no-numbers", help="Allow numbers in digits.")] = True,
    new_words: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Words that are meant to be new: counted apart.")
    ] = None,
    prompt_words: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The texts' prompt: those of its words that it allowed count.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A JSON schema: the texts are JSON, and the strings that it does not fix are checked."
        ),
    ] = None,
    readings: Annotated[
        bool, typer.Option("--readings", help="How words are read: Chinese in pinyin, Japanese in hiragana.")
    ] = False,
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Count names that are not listed apart, by their capitals.")
    ] = False,
    inflected: Annotated[
        bool, typer.Option("--inflected", help="Extra and new words count with the endings of their language too.")
    ] = False,
    sentences: Annotated[
        bool,
        typer.Option("--sentences", help="Which sentences have exactly one word that is not listed; with --json all."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write a report of every file, a line of JSON each.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write the words that are not allowed as CSV.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="Write the texts as a page, their words marked.")] = False,
) -> None:
    """The exit status is 0 where all words are allowed, 1 where some are not or there are symbols, and 2 where a text
    could not be checked.
    """
    flags = dict(zip(FORMATS, (as_json, as_csv, as_html), strict=True))
    if sum(flags.values()) > 1:
        raise typer.BadParameter("choose one of --json, --csv and --html")
    if schema is not None and (as_csv or as_html):
        raise typer.BadParameter("--schema goes with --json, or with neither")
    if readings and as_csv:
        raise typer.BadParameter("--readings goes with --json or --html, or with neither")
    if sentences and (as_csv or as_html or schema is not None):
        raise typer.BadParameter("--sentences goes with --json, or with neither, and not with --schema")
    word_list = named.load()
    changes = named.load_changes()
    changes.check(word_list.language)
    if readings:
        from vocab.readings import check_readings, readings_of

        check_readings(word_list.language)
    new = () if new_words is None else _new_words(new_words)
    segmentation = named.segmentation_of(word_list)
    options = ListOptions(numbers=numbers, segmentation=segmentation, possessive=named.possessive_of(word_list))
    checker = TextChecker(word_list, options, named.num_words(word_list), changes, new, inflected=inflected)
    allowed = None if prompt_words is None else _words_of_prompt(prompt_words, checker, word_list, named, changes)
    if allowed:
        changes = replace(changes, extra_words=(*changes.extra_words, *words_and_forms(allowed)))
        checker = TextChecker(word_list, options, named.num_words(word_list), changes, new, inflected=inflected)
    # All are read before the first is reported.
    texts = [(name, _read(name)) for name in files]
    checked = []
    for name, text, pointers in list(_strings_of(texts, schema)) if schema else [(*text, ()) for text in texts]:
        report = checker.check(text, folds=True, keep_names=keep_names, with_lemmas=readings)
        report = replace(report, prompt_words=allowed)
        if readings:
            spans = [word[:2] for word in report.words]
            report = replace(report, readings=readings_of(text, spans, word_list.language))
        checked.append(NamedReport(None if name == STANDARD_INPUT else name, report, pointers))
    for form, is_asked in flags.items():
        if is_asked:
            # Bytes, for the same output on every system.
            sys.stdout.buffer.write(render_reports(checked, form, with_sentences=sentences).encode())
    if not any(flags.values()):
        for one in checked:
            print("\n".join([*_lines(*one), *(_sentences(one.report) if sentences else ())]))
    raise typer.Exit(NOT_AS_ASKED if any(one.report.not_allowed for one in checked) else DONE)


def _words_of_prompt(
    prompt: str, checker: TextChecker, word_list: WordList, named: NamedList, changes: ListChanges
) -> Sequence[PromptWord]:
    """Return what a prompt allows besides the words of ``checker``, by the list of the language."""
    from vocab.text.prompt_words import PromptReader, language_list

    if named.list_file is not None and named.lang is None:
        raise typer.BadParameter("--prompt-words needs the language of --list: add --lang")
    lang = language_list(word_list)
    known = word_list if lang is None else load_word_list(lang, named.folder, safe=named.safe)
    return PromptReader(known, ListForms(known, DEFAULT_OPTIONS)).read(prompt, checker, changes.exclude_words)


def _strings_of(texts: Iterable[tuple[str, str]], path: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield for each JSON text the strings that the schema of a file does not fix, and the pointer of each line."""
    from vocab.matching.structure.answers import listed_strings
    from vocab.matching.structure.schema import prepare

    place: object = path
    try:
        schema = prepare(json.loads(path.read_bytes()))
        for place, text in texts:
            yield str(place), *listed_strings(schema, text)
    except StructureError as error:
        raise StructureError(f"{place}: {error}") from None
    except ValueError as error:
        raise StructureError(f"{place}: it is no JSON: {error}") from None


def _new_words(path: Path) -> tuple[str, ...]:
    """Read the file of ``--new-words``; none where it is empty, as of a text without new words."""
    try:
        return words_of_file(path)
    except EmptyWordListError:
        return ()


def _read(name: str) -> str:
    """Read the plain text of a document or, for ``-``, of standard input."""
    if name == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    try:
        return text_of(data, name)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from None


def _lines(name: str | None, report: TextReport, pointers: tuple[str, ...]) -> Iterator[str]:
    """Yield a report of a text for people: counts, coverage, rank bands, and unlisted words with places."""
    heading = f"{name or STANDARD_INPUT}: {format_counts(report)}"
    if report.coverage is None:
        yield f"{heading}; there are no words"
    else:
        num_others = report.num_distinct_words - report.num_distinct_apart
        distinct = report.num_distinct_allowed / num_others if num_others else 1.0
        share = percent(report.coverage)
        yield f"{heading}; {share} of the words are in the list, {percent(distinct)} of the different ones"
    if report.num_of_declared:
        unused = [word for word, count in report.num_of_declared.items() if not count]
        yield f"  {report.num_new:,} words are new" + (f"; not used: {', '.join(unused)}" if unused else "")
    if report.names:
        yield f"  {report.num_names:,} names: {', '.join(report.names)}"
    least = 0
    for band in report.bands:
        if band.num_words:
            most = f"{least + 1:,} to {band.max_rank:,}" if band.max_rank else "all others"
            yield f"  {most:>16}  {band.num_words:>9,} running, {band.num_distinct_words:>7,} different"
        least = band.max_rank or least
    lines = TextLines(report.text)
    readings = dict(zip(report.words, report.readings or (), strict=False))
    by_key: dict[str, list[CheckedWord]] = {}
    for word in report.not_allowed:
        by_key.setdefault(word.key, []).append(word)
    if by_key:
        yield "  not in the list:"
    for found in by_key.values():
        first = found[0]
        line, column = lines.of(first.start)
        place = pointers[line - 1] or "/" if pointers else f"{line}:{column}"
        number = f", {len(found)} times" if len(found) > 1 else ""
        nearest = ", ".join(listed.word for listed in report.note(first).nearest)
        reading = f" {reading}" if (reading := readings.get(first)) else ""
        shown = f"    {report.spelling(first)}{reading}  ({why(first)}{number}; {place})"
        yield shown + (f" -> {nearest}" if nearest else "")


def _sentences(report: TextReport) -> Iterator[str]:
    """Yield how many sentences have no unlisted word, one or more, and those with one."""
    lines = TextLines(report.text)
    number = Counter(min(len(lacking), 2) for *_, lacking in report.sentences)
    yield f"  sentences: {number[0]:,} in words of the list, {number[1]:,} with one other, {number[2]:,} with more"
    for start, end, lacking in report.sentences:
        if len(lacking) == 1:
            line, column = lines.of(start)
            yield f"    {line}:{column}  {report.spelling(lacking[0])}: {' '.join(report.text[start:end].split())}"
