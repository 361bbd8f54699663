"""``wordbound rewrite``: a text of one's own in the words of a list, by a running service."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from vocab.text.checking.formats import percent
from wordbound.cli.asking import (
    SeedOption,
    UrlOption,
    WordListOptions,
    drop_none,
    read_text,
)
from wordbound.cli.commands import NOT_AS_ASKED, ServiceError
from wordbound.cli.service import DEFAULT_URL, Service
from wordbound.cli.terminal import Waiting, note, open_whole

REWRITE: Final = "/v1/vocabularies/rewrite"


def rewrite(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plain text in UTF-8; - is standard input.")],
    word_list: WordListOptions,
    keep_names: Annotated[
        bool, typer.Option("--keep-names/--no-keep-names", help="Let names in the text count as listed.")
    ] = True,
    seed: SeedOption = None,
    changes: Annotated[bool, typer.Option("--changes", help="Tell each change on standard error.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the text and its changes as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; the terminal, if not given.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Rewrite a text in the words of a list, with a running service.

    Sentences whose words are all in the list stay as they are. On a terminal each sentence shows as soon as it is done.
    The exit status is 1 where words that are not in the list are left.
    """
    text = read_text(file)
    vocab = word_list.members()
    body = drop_none({"text": text, "vocab": vocab, "seed": seed, "keep_names": None if keep_names else False})
    is_shown = out is None and not as_json and sys.stdout.isatty()
    with Service(url) as service, open_whole(out) as output:
        whole = _stream(service, body, output if is_shown else None)
        if as_json:
            output.write(json.dumps(whole, ensure_ascii=False, indent=1) + "\n")
        elif not is_shown:
            output.write(whole["text"] if whole["text"].endswith("\n") else whole["text"] + "\n")
    if changes:
        for change in whole.get("changes", ()):
            note(f"{change['start']}: {change['from']!r} -> {change['to']!r}")
    if whole.get("names"):
        note(f"names kept: {', '.join(whole['names'])}")
    coverage = whole["coverage"]
    note(
        f"{_count(len(whole.get('changes', ())), 'change')}: {percent(coverage['before'])} of the words were in the"
        f" list, {percent(coverage['after'])} are"
    )
    if coverage["after"] is not None and coverage["after"] < 1:
        raise typer.Exit(NOT_AS_ASKED)


def _stream(service: Service, body: Mapping[str, Any], output: Any) -> dict[str, Any]:
    """Stream a rewritten text, each sentence to ``output`` where there is one; return the whole answer."""
    num_done = 0
    with Waiting("rewriting") as waiting:
        for event in service.events(REWRITE, body):
            if "coverage" in event:
                if output is not None:
                    output.write("\n")
                return event
            num_done += 1
            waiting.update(f"rewriting: {_count(num_done, 'sentence')}")
            if output is not None:
                waiting.stop()
                output.write(event["text"])
                output.flush()
    raise ServiceError(f"the answer of {service.url} broke off: try again")


def _count(number: int, what: str) -> str:
    """Format a number with its noun, in the plural where it is not 1."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
