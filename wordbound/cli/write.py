"""``wordbound write``, ``rewrite`` and ``exercises``: a text in the words of a list, and what is asked about one."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from vocab.text.formats import percent
from wordbound.cli import NOT_AS_ASKED, STANDARD_INPUT, InputError
from wordbound.cli.asking import (
    KeepNamesOption,
    MaxTokensOption,
    OutOption,
    QualityOption,
    SeedOption,
    UrlOption,
    connect,
    note,
    open_whole,
    read_text,
    search_for_quality,
    waiting,
)
from wordbound.cli.options import ServiceList, split_names
from wordbound.client import DEFAULT_URL, Client
from wordbound.errors import ServiceError
from wordbound.routes import FileFormat, drop_none

VocabBlock: TypeAlias = Mapping[str, Any]
"""The member ``vocab`` of an answer."""


def write(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to write; - reads it from standard input.")
    ] = None,
    brief: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file that says what to write, instead of or before PROMPT.")
    ] = None,
    *,
    word_list: ServiceList,
    must_use: Annotated[
        list[str] | None, typer.Option(metavar="WORD[:COUNT]", help="A word that the text is to have; may be repeated.")
    ] = None,
    any_form: Annotated[
        bool, typer.Option("--any-form", help='Other forms of --must-use count too: "went" for "go".')
    ] = False,
    new_words: Annotated[
        str | None,
        typer.Option(
            metavar="N[:PER_100[:MAX]]",
            help="Words beyond --words, up to rank N: so many in 100 words (2), and so many in all.",
        ),
    ] = None,
    new_words_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the new words go, as wordbound check --new-words reads them."),
    ] = None,
    prompt_words: Annotated[
        bool, typer.Option("--prompt-words", help="Allow the prompt's own words too, at most eight, with their forms.")
    ] = False,
    glossary: Annotated[bool, typer.Option("--glossary", help="Write the new words under the text.")] = False,
    max_sentence_words: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The most words of a sentence.")
    ] = None,
    min_sentences: Annotated[int | None, typer.Option(metavar="N", min=1, help="The fewest sentences.")] = None,
    max_sentences: Annotated[int | None, typer.Option(metavar="N", min=1, help="The most sentences.")] = None,
    max_tokens: MaxTokensOption = None,
    quality: QualityOption = "fast",
    seed: SeedOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the text and what it is made of as JSON.")] = False,
    out: OutOption = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """The text goes to standard output as it is written, and a line about its words to standard error.

    The exit status is 1 where a word of --must-use is missing.
    """
    asked = {
        **word_list.to_vocab(),
        "must_use": _must_use(must_use, any_form=any_form),
        "new_words": _new_words(new_words),
        "prompt_words": prompt_words or None,
        "max_sentence_words": max_sentence_words,
        "min_sentences": min_sentences,
        "max_sentences": max_sentences,
        "search": search_for_quality(quality),
    }
    if new_words is None and (glossary or new_words_file is not None):
        raise InputError("a glossary lists the words of --new-words: add it, such as --new-words 3000:2:10")
    if any_form and not must_use:
        raise InputError("--any-form is about the words of --must-use: add one")
    messages = [{"role": "user", "content": _read_prompt(prompt, brief)}]
    body = drop_none({"messages": messages, "vocab": drop_none(asked), "max_tokens": max_tokens, "seed": seed})
    # A file that cannot be written is reported before anything is asked for.
    words_file = nullcontext() if new_words_file is None else open_whole(new_words_file)
    answer = StreamedAnswer()
    with connect(url) as service, open_whole(out) as output, words_file as new_words_output:
        with waiting("writing") as spinner:
            for piece in answer.read(service, body):
                if as_json:
                    continue
                if output.isatty():
                    spinner.stop()
                output.write(piece)
                output.flush()
        block = answer.block
        if as_json:
            whole = {"text": answer.text, "finish_reason": answer.reason, "model": answer.model, "vocab": block}
            output.write(_to_json(whole))
        else:
            output.write("\n")
            if glossary:
                output.write("".join(f"{line}\n" for line in glossary_of(block)))
        if new_words_output is not None:
            different = dict.fromkeys(new["word"] for new in block.get("new_words", ()))
            new_words_output.write("".join(f"{word}\n" for word in different))
    for line in summary_of(block, answer.reason):
        note(line)
    if format_missing_words(block):
        raise typer.Exit(NOT_AS_ASKED)


def _must_use(options: Sequence[str] | None, *, any_form: bool = False) -> list[dict[str, Any]] | None:
    """Parse ``--must-use`` options (``storm``, or ``sea:3`` for three times) into ``vocab.must_use``; None without any.

    With ``any_form`` every form of the same lemma counts.
    """
    made = []
    for option in options or ():
        word, colon, count = option.partition(":")
        if not word.strip() or (colon and not (count.isdecimal() and len(count) <= 9 and int(count))):
            raise InputError(f"--must-use takes WORD or WORD:COUNT, such as sea:3, and not {option!r}")
        form = {"any_form": True} if any_form else {}
        made.append({"word": word.strip(), "count": int(count) if colon else 1, **form})
    return made or None


def _new_words(option: str | None) -> dict[str, Any] | None:
    """Parse ``--new-words`` (``N``, ``N:PER_100`` or ``N:PER_100:MAX``) into ``vocab.new_words``."""
    if option is None:
        return None
    kinds: tuple[tuple[str, type[int] | type[float]], ...] = (("n_words", int), ("per_100", float), ("max", int))
    parts = option.split(":")
    try:
        made = {name: kind(part) for (name, kind), part in zip(kinds, parts, strict=False)}
    except ValueError:
        made = {}
    # NaN is not above 0 either.
    if not made or len(made) < len(parts) or not all(number > 0 for number in made.values()):
        raise InputError(
            f"--new-words takes N, N:PER_100 or N:PER_100:MAX, such as 3000:2:10, and not {option!r}"
        ) from None
    return made


@dataclass
class StreamedAnswer:
    """A chat answer as it arrives.

    Attributes:
        text: What has arrived.
        model: Which answers.
        block: Its block ``vocab``; empty before the end, and without a list.
        reason: Why it ended, once it has.
    """

    text: str = ""
    model: str | None = None
    block: VocabBlock = field(default_factory=dict)
    reason: str | None = None

    def read(self, service: Client, body: Mapping[str, Any]) -> Iterator[str]:
        """Ask the service, and yield the pieces of the text."""
        for chunk in service.events("/v1/chat/completions", body):
            self.model = chunk.get("model") or self.model
            self.block = chunk.get("vocab") or self.block
            for choice in chunk.get("choices", ()):
                self.reason = choice.get("finish_reason") or self.reason
                if piece := choice.get("delta", {}).get("content") or "":
                    self.text += piece
                    yield piece


def summary_of(block: VocabBlock, reason: str | None) -> Iterator[str]:
    """Yield lines for people about a text: word counts, new words, and what is missing."""
    if block:
        rarest = f", the rarest has rank {block['max_rank']:,}" if block.get("max_rank") else ""
        yield f"{block.get('num_words', 0):,} words, {block.get('num_distinct_words', 0):,} different{rarest}"
    if block.get("prompt_words"):
        words = ", ".join(f"{word['word']} (rank {word['rank']:,})" for word in block["prompt_words"])
        yield f"allowed by the prompt: {words}"
    if block.get("new_words"):
        yield f"{len(block['new_words']):,} new: {', '.join(word['word'] for word in block['new_words'])}"
    if reason == "length":
        yield "it ended at --max-tokens: a larger number lets it go on"
    if missing := format_missing_words(block):
        yield f"not used as often as asked: {', '.join(missing)}"


def format_missing_words(block: VocabBlock) -> list[str]:
    """List, for people, the ``must_use`` words used too seldom, with counts."""
    return [
        f"{word['word']} ({word.get('used', 0)} of {word.get('count', 1)})"
        for word in block.get("must_use") or ()
        if word.get("used", 0) < word.get("count", 1)
    ]


def glossary_of(block: VocabBlock) -> Iterator[str]:
    """Yield the glossary of an answer: its new words by alphabet, each with its rank."""
    by_lemma: dict[str, dict[str, Any]] = {}
    for word in block.get("new_words") or ():
        by_lemma.setdefault(word.get("lemma") or word["word"], word)
    if not by_lemma:
        return
    yield ""
    yield "New words"
    for lemma, word in sorted(by_lemma.items(), key=lambda item: item[0].casefold()):
        written = f" ({word['word']})" if word["word"].casefold() != lemma.casefold() else ""
        yield f"- {lemma}{written}" + (f", rank {word['rank']:,}" if word.get("rank") else "")


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _read_prompt(prompt: str | None, brief: str | None) -> str:
    if prompt is None and brief is None:
        raise InputError('say what to write: wordbound write "A story about a dog", or --brief FILE')
    parts = [read_text(brief)] if brief is not None else []
    if prompt is not None:
        parts.append(read_text(STANDARD_INPUT) if prompt == STANDARD_INPUT else prompt)
    text = "\n\n".join(part.strip() for part in parts)
    if not text:
        raise InputError("there is nothing in PROMPT: say what to write")
    return text


def rewrite(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plain text in UTF-8; - is standard input.")],
    word_list: ServiceList,
    keep_names: KeepNamesOption = True,
    seed: SeedOption = None,
    changes: Annotated[bool, typer.Option("--changes", help="Tell each change on standard error.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the text and its changes as JSON.")] = False,
    out: OutOption = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Sentences whose words are all in the list stay as they are.

    On a terminal each sentence shows as soon as it is done. The exit status is 1 where words that are not in the list
    are left.
    """
    text = read_text(file)
    body = {"text": text, "vocab": word_list.to_vocab(), "keep_names": keep_names, **drop_none({"seed": seed})}
    is_shown = out is None and not as_json and sys.stdout.isatty()
    with connect(url) as service, open_whole(out) as output:
        whole: dict[str, Any] = {}
        events = _events_to_whole(service, "/v1/vocabularies/rewrite", body, "coverage")
        with waiting("rewriting") as spinner:
            for number, whole in enumerate(events, start=1):
                spinner.update(f"rewriting: {_count(number, 'sentence')}")
                if is_shown:
                    spinner.stop()
                    output.write("\n" if "coverage" in whole else whole["text"])
                    output.flush()
        if as_json:
            output.write(_to_json(whole))
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


def _events_to_whole(service: Client, path: str, body: Mapping[str, Any], member: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream up to the whole answer, which has ``member``; ServiceError where it breaks off."""
    for event in service.events(path, body):
        yield event
        if member in event:
            return
    raise ServiceError(f"the answer of {service.url} broke off: try again")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


FORMATS: Final[dict[str, FileFormat]] = {".txt": "txt", ".docx": "docx", ".gift": "gift", ".zip": "qti", ".tsv": "tsv"}
"""By the ending of the file; .json has the exercises themselves."""


def exercises(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plain text in UTF-8; - is standard input.")],
    word_list: ServiceList,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND,…", help="questions, true_false, gap_fill, matching, order, dictation; all, if not given."
        ),
    ] = None,
    num_items: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Items of each kind; 5, if not given.")
    ] = None,
    keep_names: KeepNamesOption = True,
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
    """Sentences with words that are not in the list are not used. The key follows the exercises. The exit status is 1
    where a kind has fewer items than asked for.
    """
    ending = ".txt" if out is None else out.suffix.lower()
    if ending not in (*FORMATS, ".json"):
        raise InputError(f"--out must end in {', '.join(FORMATS)} or .json, and not in {ending!r}")
    text = read_text(file)
    asked = {
        "text": text,
        "vocab": word_list.to_vocab(),
        "kinds": split_names(kinds) or None,
        "num_items": num_items,
        "keep_names": keep_names,
        "seed": seed,
    }
    with connect(url) as service, open_whole(out, is_binary=out is not None) as output:
        with waiting("making exercises"):
            # As a stream, so that no answer takes long to begin.
            *_, made = _events_to_whole(service, "/v1/vocabularies/exercises", drop_none(asked), "left_out")
        if ending == ".json":
            output.write(_to_json(made).encode())
        elif not made["exercises"]:
            raise InputError(f"no exercise could be made: {made['left_out'][0]['reason']}")
        else:
            shown = text if with_text and ending in (".txt", ".docx") else None
            sheet = service.worksheet(made["exercises"], FORMATS[ending], lang=made["lang"], title=title, text=shown)
            output.write(sheet if out is not None else sheet.decode())
    if made["names"]:
        note(f"names kept: {', '.join(made['names'])}")
    if unused := made["num_unlisted_sentences"]:
        note(f"{unused} of {made['num_sentences']} sentences were not used: they have words that are not in the list")
    for fewer in made["left_out"]:
        note(f"{fewer['kind']}: {fewer['num_items']}, for {fewer['reason']}")
    if made["left_out"]:
        raise typer.Exit(NOT_AS_ASKED)
