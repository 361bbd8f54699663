"""``wordbound exercises``: questions, gaps and more from a text in the words of a list, with their key."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from wordbound.cli.asking import SeedOption, UrlOption, WordListOptions, drop_none, read_text, split_names
from wordbound.cli.commands import NOT_AS_ASKED, InputError
from wordbound.cli.service import DEFAULT_URL, Service
from wordbound.cli.terminal import Waiting, note, open_whole

EXERCISES: Final = "/v1/vocabularies/exercises"
WORKSHEET: Final = "/v1/documents/worksheet"

FORMATS: Final = {".txt": "txt", ".docx": "docx", ".gift": "gift", ".zip": "qti", ".tsv": "tsv"}
"""By the ending of the file; .json has the exercises themselves."""


def exercises(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plain text in UTF-8; - is standard input.")],
    word_list: WordListOptions,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND,…", help="questions, true_false, gap_fill, matching, order, dictation; all, if not given."
        ),
    ] = None,
    num_items: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Items of each kind; 5, if not given.")
    ] = None,
    keep_names: Annotated[
        bool, typer.Option("--keep-names/--no-keep-names", help="Let names in the text count as listed.")
    ] = True,
    with_text: Annotated[bool, typer.Option("--with-text/--without-text", help="Print the text above them.")] = True,
    title: Annotated[str | None, typer.Option(metavar="TITLE", help="Above the exercises.")] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A .txt, .docx, .gift (Moodle), .zip (QTI), .tsv (Anki) or .json; the terminal, if not given.",
        ),
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Make exercises from a text in the words of a list, with a running service.

    Sentences with words that are not in the list are not used. The key follows the exercises. The exit status is 1
    where a kind has fewer items than asked for.
    """
    ending = ".txt" if out is None else out.suffix.lower()
    if ending not in (*FORMATS, ".json"):
        raise InputError(f"--out must end in {', '.join(FORMATS)} or .json, and not in {ending!r}")
    text = read_text(file)
    asked = {
        "text": text,
        "vocab": word_list.members(),
        "kinds": split_names(kinds) or None,
        "num_items": num_items,
        "keep_names": None if keep_names else False,
        "seed": seed,
    }
    with Service(url) as service, open_whole(out, is_binary=out is not None) as output:
        with Waiting("making exercises"):
            made = _make(service, drop_none(asked))
        if ending == ".json":
            output.write((json.dumps(made, ensure_ascii=False, indent=1) + "\n").encode())
        elif made["exercises"]:
            sheet = {
                "format": FORMATS[ending],
                "exercises": made["exercises"],
                "lang": made["lang"],
                "title": title,
                "text": text if with_text and ending in (".txt", ".docx") else None,
            }
            written = service.post_for_file(WORKSHEET, drop_none(sheet))
            output.write(written if out is not None else written.decode())
    if made["names"]:
        note(f"names kept: {', '.join(made['names'])}")
    if unused := made["num_unlisted_sentences"]:
        note(f"{unused} of {made['num_sentences']} sentences were not used: they have words that are not in the list")
    for fewer in made["left_out"]:
        note(f"{fewer['kind']}: {fewer['num_items']}, for {fewer['reason']}")
    if made["left_out"]:
        raise typer.Exit(NOT_AS_ASKED)


def _make(service: Service, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask for exercises as a stream, so that no answer takes long to begin; return the whole."""
    *_, whole = service.events(EXERCISES, asked)
    return whole
