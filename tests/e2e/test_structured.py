"""JSON answers in listed words on the real stack, through the ``openai`` package."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import openai
import pytest
from pydantic import BaseModel

from tests.checker import assert_only_listed_words
from tests.e2e.service import MODEL, Service, read_stream
from tests.e2e.test_batches import read, start, wait

pytestmark = pytest.mark.e2e

SHORT = {"type": "string", "x-vocab": {"end": "word", "punctuation": "none", "max_words": 2}}
SHEET = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "kind": {"enum": ["quiz", "supercalifragilistic"]},
        "options": {"type": "array", "items": SHORT, "minItems": 2, "maxItems": 3},
        "answer": {"type": "integer", "minimum": 0, "maximum": 2},
    },
    "required": ["title", "kind", "options", "answer"],
    "additionalProperties": False,
}
LIST = {"lang": "en", "n_words": 500}


def form(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "sheet", "schema": schema, "strict": True}}


def check(text: str, lang: str = "en", n_words: int = 500) -> Any:
    """What the answer must be, read by a checker that knows nothing of tokens; returns it."""
    sheet = json.loads(text)
    jsonschema.validate(sheet, SHEET)
    assert_only_listed_words(sheet["title"], lang, n_words)
    assert sheet["title"].rstrip(")\"“”’»'").endswith((".", "!", "?", "…"))
    for option in sheet["options"]:
        assert_only_listed_words(option, lang, n_words)
        assert len(option.split()) <= 2
        assert not re.search(r"[.,;:!?]", option)
    return sheet


def ask(service: Service, vocab: Any = LIST, **fields: Any) -> Any:
    given = {"max_tokens": 80, "temperature": 1, "response_format": form(SHEET), **fields}
    return service.start("Make a quiz about a dog.", vocab, **given)


@pytest.mark.fault(67)
@pytest.mark.parametrize(("lang", "n_words"), [("en", 500), ("es", 1000), ("de", 300), ("fr", 2000)])
def test_every_string_is_written_in_the_list(service: Service, lang: str, n_words: int) -> None:
    made = ask(service, {"lang": lang, "n_words": n_words}, n=3)
    sheets = [check(choice.message.content, lang, n_words) for choice in made.choices]
    block = made.model_extra["vocab"]
    assert block["num_fixed_strings"] == len(sheets)
    words = sum(len(re.findall(r"\w[\w'’-]*", " ".join([sheet["title"], *sheet["options"]]))) for sheet in sheets)
    assert 0 < block["num_words"] <= words + 20
    assert 0 < block["max_rank"] <= n_words


def test_a_stream_has_whole_words_and_the_same_answer(service: Service) -> None:
    whole = ask(service, seed=7, temperature=0).choices[0].message.content
    chunks = list(ask(service, seed=7, temperature=0, stream=True))
    parts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert len(parts) > 10
    streamed = read_stream(chunks)
    assert streamed.text == whole
    check(streamed.text)
    # No part ends inside a word of a string.
    text, words = "", Counter(re.findall(r"[a-z]+", whole.lower()))
    for part in parts:
        text += part
        for word in re.findall(r"[a-z]+", part.lower()):
            assert word in words, (part, whole)
    assert streamed.vocab is not None


@pytest.mark.fault(67)
def test_whatever_max_tokens_is_an_answer_is_whole_or_refused(service: Service) -> None:
    def cut(max_tokens: int) -> int | None:
        try:
            made = ask(service, max_tokens=max_tokens)
        except openai.BadRequestError as error:
            found = re.match(r"'max_tokens' must be at least (\d+): an answer of this schema", error.body["message"])
            assert found is not None
            assert max_tokens < int(found[1])
            return int(found[1])
        check(made.choices[0].message.content)
        # Clients take another reason for an answer that was cut.
        assert made.choices[0].finish_reason == "stop"
        assert made.usage.completion_tokens <= max_tokens
        return None

    with ThreadPoolExecutor(8) as pool:
        fewest = set(pool.map(cut, range(1, 60)))
    assert len(fewest) == 2, "both kinds, and one number"


def test_a_completion_a_search_of_words_and_a_seed_have_it(service: Service) -> None:
    made = service.client.completions.create(
        model=MODEL,
        prompt="A quiz: ",
        max_tokens=80,
        temperature=1,
        extra_body={"vocab": LIST, "response_format": form(SHEET)},
    )
    check(made.choices[0].text)
    check(ask(service, {**LIST, "rescue": True}).choices[0].message.content)
    same = [ask(service, seed=3).choices[0].message.content for _ in range(2)]
    assert same[0] == same[1]
    details = ask(service, stream=True, stream_options={"token_details": True})
    check(read_stream(details).text)


def test_a_batch_has_it(service: Service) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "A quiz."}], "max_tokens": 80, "vocab": LIST}
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions"}
    sent = [{**line, "body": {**body, "response_format": form(SHEET)}}]
    sent.append({**line, "custom_id": "two", "body": {**body, "max_tokens": 9, "response_format": form(SHEET)}})
    batch = wait(service, start(service, "\n".join(map(json.dumps, sent)).encode()).id)
    [answered] = read(service, batch.output_file_id)
    check(answered["response"]["body"]["choices"][0]["message"]["content"])
    [failed] = read(service, batch.error_file_id)
    assert "must be at least" in failed["response"]["body"]["error"]["message"]


class Animal(BaseModel):
    name: str
    legs: int
    friends: list["Animal"]


def test_the_openai_package_parses_a_pydantic_model(service: Service) -> None:
    parsed = service.client.chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": "Tell me of an animal and its friends."}],
        response_format=Animal,
        max_tokens=100,
        extra_body={"vocab": {**LIST, "end": "word"}},
    )
    animal = parsed.choices[0].message.parsed
    assert animal is not None
    assert_only_listed_words(animal.name, "en", 500)


def test_any_json_has_names_and_strings_of_the_list(service: Service) -> None:
    for seed in range(4):
        made = ask(service, response_format={"type": "json_object"}, seed=seed)
        found = json.loads(made.choices[0].message.content)
        assert isinstance(found, dict)
        for name in _names(found):
            assert_only_listed_words(name, "en", 500)


def _names(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for one in value.values() for name in _names(one))]
    return [name for one in value for name in _names(one)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("vocab", "fields", "param", "part"),
    [
        (LIST, {"stop": ["dog"]}, "stop", "cannot be combined with JSON in a word list"),
        (LIST, {"extra_body": {"no_repeat_ngram_size": 3}}, "no_repeat_ngram_size", "cannot be combined with JSON"),
        ({**LIST, "layout": "lines"}, {}, "vocab.layout", "cannot be combined with JSON in a word list"),
        ({**LIST, "max_sentences": 2}, {}, "vocab.max_sentences", "cannot be combined with JSON in a word list"),
        (LIST, {"extra_body": {"num_beams": 2}}, "response_format", "cannot be combined with 'num_beams'"),
        (LIST, {"extra_body": {"best_of": 2}}, "response_format", "cannot be combined with 'best_of'"),
        ({"lang": "en-odd"}, {}, "response_format.json_schema.schema", "words with a quotation mark or a backslash"),
        (
            LIST,
            {"response_format": form({"type": "array", "items": {"type": "string", "format": "date"}})},
            "response_format.json_schema.schema",
            "#/items/format the strings are written in the word list",
        ),
        (
            {"words": ["l'"], "lang": "fr", "end": "word"},
            {"response_format": form({"type": "string"})},
            None,
            "",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(
    service: Service, vocab: Any, fields: dict[str, Any], param: str | None, part: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        ask(service, vocab, **fields)
    assert param is None or raised.value.param == param
    assert part in raised.value.message


def test_without_a_list_a_schema_is_the_engines(service: Service) -> None:
    made = service.start("A quiz.", None, response_format=form({"type": "object", "properties": {}}), max_tokens=20)
    assert made.choices[0].message.content.replace(" ", "").replace("\n", "").startswith("{")
