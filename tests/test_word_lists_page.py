"""Every example of docs/word-lists.md holds: its tables are read and put to the library, on the built-in lists."""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deployments.contract import VocabularySpec
from deployments.protocol.validation import validate
from deployments.protocol.vocabulary import ListMembers, VocabularyFields
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_LIST_BYTES, MAX_WORD_CHARS, Limits
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import Unit, WordList, inline_word_list, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.reader import TextReader

PAGE = (Path(__file__).parent.parent / "docs" / "word-lists.md").read_text()
HEADING = "| list | words | with | the list has | may be written | may not be written | because |"
NO_LANGUAGE, ALL, LINE_BREAK = "–", "all", "⏎"


class Example(NamedTuple):
    """One row of a table."""

    lang: str
    words: str
    choices: dict[str, str]
    listed: list[str]
    written: list[str]
    refused: list[str]

    def __str__(self) -> str:
        return f"{self.lang} {self.words} {self.choices or ''}".strip()


def _examples() -> list[Example]:
    rows = [line for table in _tables(HEADING) for line in table]
    found = []
    for row in rows:
        lang, words, choices, listed, written, refused, because = (cell.strip() for cell in row.strip("|").split(" |"))
        assert because
        pairs = (choice.split(": ", 1) for choice in _quoted(choices))
        found.append(Example(lang, words, dict(pairs), _quoted(listed), _quoted(written), _quoted(refused)))
    return found


def _tables(heading: str) -> list[list[str]]:
    """The rows of every table with that heading."""
    return [
        [line for line in table.split("\n\n", 1)[0].splitlines()[2:] if line.startswith("|")]
        for table in PAGE.split(heading)[1:]
    ]


def _quoted(cell: str) -> list[str]:
    return [text.replace(LINE_BREAK, "\n") for text in re.findall(r"`([^`]+)`", cell)]


EXAMPLES = _examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_what_the_page_shows_of_a_list_holds(example: Example) -> None:
    word_list = _word_list(example)
    n_words = word_list.num_ranks if example.words == ALL else int(example.words.replace(",", ""))
    assert [word for word in example.listed if word not in word_list.up_to(n_words).words] == []
    reader = TextReader(word_list, _options(example), n_words, changes=_changes(example))
    assert [text for text in example.written if not reader.is_text(text)] == []
    assert [text for text in example.refused if reader.is_text(text)] == []


def test_the_page_has_examples_of_many_languages_and_every_option() -> None:
    assert {"en", "es", "fr", "it", "ca", "de", "tr", "ru", "ar", "fi", "el", "hu"} <= {e.lang for e in EXAMPLES}
    shown = {name for example in EXAMPLES for name in example.choices}
    assert shown == set(ListMembers.model_fields) - {"lang", "n_words", "level", "words"}


def test_the_page_describes_every_member_with_its_default() -> None:
    [table] = _tables("| member | default | meaning |")
    described = {}
    for row in table:
        name, default, _ = (cell.strip() for cell in row.strip("|").split(" |", 2))
        described[name.strip("`")] = default.strip("`")
    defaults = {
        name: _shown_default(name, field.get_default(call_default_factory=True))
        for name, field in VocabularySpec.model_fields.items()
        if name in ListMembers.model_fields
    }
    # A vocabulary has the prompt itself.
    assert described.pop("prompt_words") == "false"
    assert described == defaults


def test_the_request_on_the_page_is_accepted() -> None:
    request, kanji = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    spec, of_kanji = (
        validate(VocabularyFields, {"vocab": body["vocab"]}, Limits()).vocabulary() for body in (request, kanji)
    )
    assert spec is not None and of_kanji is not None
    assert (of_kanji.lang, of_kanji.n_words, of_kanji.segmentation) == ("ja", 3, "any")
    assert (spec.lang, spec.n_words, spec.end) == ("en", 1000, "word")


def test_the_limits_on_the_page_are_those_of_the_service() -> None:
    limits = Limits()
    assert f"{limits.max_list_words:,} words and {MAX_LIST_BYTES // 2**20} MiB" in " ".join(PAGE.split())
    assert f"{MAX_WORD_CHARS} characters a word, and {MAX_CHANGED_WORDS:,} words" in " ".join(PAGE.split())


def _word_list(example: Example) -> WordList:
    if example.words == ALL:
        return inline_word_list(example.listed, None if example.lang == NO_LANGUAGE else example.lang)
    choices = example.choices
    return _language_list(example.lang, choices.get("unit", "form"), choices.get("safe") != "false")


@lru_cache(maxsize=2)
def _language_list(lang: str, unit: Unit, safe: bool) -> WordList:
    word_list = load_word_list(lang, None, safe=safe)
    return group_by_lemma(word_list) if unit == "lemma" else word_list


def _options(example: Example) -> ListOptions:
    options: dict[str, Any] = {
        name: value for name, value in example.choices.items() if name in ListOptions.__dataclass_fields__
    }
    for name in {"numbers", "possessive"} & options.keys():
        options[name] = json.loads(options[name])
    return ListOptions(**options)


def _changes(example: Example) -> ListChanges:
    extra, exclude = (
        tuple(word for word in example.choices.get(name, "").split(", ") if word)
        for name in ("extra_words", "exclude_words")
    )
    return ListChanges(extra, exclude)


def _shown_default(name: str, default: object) -> str:
    if default is None:
        return "all" if name == "n_words" else "none"
    return json.dumps(list(default) if isinstance(default, tuple) else default)
