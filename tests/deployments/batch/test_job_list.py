"""The list of the simple route, and the parameters of its query string."""

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.batch.lines import Line, LineFault, read_lines, to_lines
from deployments.errors import BadRequestError
from deployments.protocol.batches import ENDPOINT, PARAMETERS, read_parameters
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.settings.limits import Limits
from tests.deployments.front import LIMITS, MODEL, SERVED, chat_body

CHAT = {"messages": [{"role": "user", "content": "Tell me a story."}]}


def lines(content: bytes | list[Any], max_lines: int = 100, **parameters: Any) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b"".join(to_lines(text, parameters, model_id=MODEL, max_lines=max_lines))


def items(content: bytes | list[Any], limits: Limits = LIMITS, **parameters: Any) -> list[Line | LineFault]:
    """As the engine room reads them."""
    stream = io.BytesIO(lines(content, **parameters))
    return list(
        read_lines(stream, reader=ChatRequestReader(ServedModel(MODEL, limits)), limits=limits, endpoint=ENDPOINT)
    )


def body(request: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    [line] = lines([request], **parameters).splitlines()
    found: dict[str, Any] = json.loads(line)["body"]
    return found


def parameters(query: str) -> dict[str, Any]:
    pairs = [tuple(pair.partition("=")[::2]) for pair in query.split("&")] if query else []
    return read_parameters(pairs, served=SERVED)  # type: ignore[arg-type]


def test_each_item_becomes_a_line_named_by_its_place() -> None:
    found = items([chat_body("one"), CHAT, chat_body('a "{[,]}" \\ b')])
    assert [item.custom_id for item in found] == ["0", "1", "2"]
    assert [item.body["model"] for item in found if isinstance(item, Line)] == [MODEL] * 3
    assert isinstance(found[2], Line)
    assert found[2].body == chat_body('a "{[,]}" \\ b')


def test_an_item_that_is_no_object_or_too_long_is_a_line_at_fault_and_the_others_are_read() -> None:
    too_long = {"messages": ["x,\n"] * 2000}
    for item in (None, 1, "tell me", [], [CHAT], True, too_long):
        found = items([CHAT, item, CHAT], Limits(max_body_bytes=2000))
        assert [type(line) for line in found] == [Line, LineFault, Line]
        assert isinstance(found[1], LineFault)
        expected = (None, "line_too_long") if item is too_long else ("1", "invalid_body")
        assert (found[1].custom_id, found[1].code) == expected


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "ends too early"),
        (b"{}", "must be a JSON list"),
        (b'"[]"', "must be a JSON list"),
        (b"\xef\xbb\xbf[]", "byte order mark"),
        (b"[{}", "ends too early"),
        (b"[{}}", "column 4"),
        (b"[{}] x", "column 6"),
        (b" [\n] ", "no items"),
        (b"[{},]", "column 5"),
        (b"[{},NaN]", "column"),
        (b'[{"a":1,"a":1}]', "a name is used twice"),
        (b'["\xff"]', "not valid UTF-8"),
        (b"[" * 300_000, "list"),
    ],
)
def test_what_is_no_list_is_refused_and_the_place_named(content: bytes, cause: str) -> None:
    with pytest.raises(BadRequestError, match=r"(?i)list") as caught:
        lines(content)
    assert cause in caught.value.message
    assert caught.value.param == "file"


def test_too_many_items_are_refused() -> None:
    assert lines([CHAT] * 3, max_lines=3).count(b"\n") == 3
    with pytest.raises(BadRequestError, match="more than 3 items"):
        lines([CHAT] * 4, max_lines=3)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(JSON, min_size=1, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_every_list_is_split_where_its_items_end(values: list[Any], indent: int | None, ascii_only: bool) -> None:
    try:
        text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    if b"\\u0000" in text:
        return
    found = [json.loads(line)["body"] for line in lines(text).splitlines()]
    assert [item for item in found if not isinstance(item, dict)] == [v for v in values if not isinstance(v, dict)]
    assert [item.keys() - {"model"} for item in found if isinstance(item, dict)] == [
        value.keys() - {"model"} for value in values if isinstance(value, dict)
    ]


@given(st.binary(max_size=40) | st.text('[]{},:"\\a1 \n', max_size=40).map(str.encode))
def test_a_list_is_taken_only_if_it_is_one(content: bytes) -> None:
    try:
        num_lines = lines(content).count(b"\n")
    except BadRequestError:
        return
    assert num_lines == len(json.loads(content))


@pytest.mark.parametrize("content", [b'["' + b'\\"' * 2**20, b"[" * 2**20, b'[{"' * 2**19, b'["a",' * 2**19])
def test_a_hostile_list_takes_no_more_time_than_its_size(content: bytes) -> None:
    start = time.process_time()
    with pytest.raises(BadRequestError):
        lines(content)
    assert time.process_time() - start < 5


def test_a_value_for_all_replaces_an_items_own() -> None:
    for name in ("max_tokens", "num_beams", "temperature", "top_p", "top_k", "repetition_penalty"):
        assert body({**CHAT, name: 1}, **{name: 2})[name] == 2
        assert body({**CHAT, name: 1})[name] == 1
        assert body(CHAT, **{name: 2})[name] == 2
    assert body({**CHAT, "model": None})["model"] == MODEL
    assert body({**CHAT, "model": "other"})["model"] == "other"
    # Its newer name too.
    assert "max_completion_tokens" not in body({**CHAT, "max_completion_tokens": 9}, max_tokens=5)
    assert body({**CHAT, "max_completion_tokens": 9}, top_k=5)["max_completion_tokens"] == 9


@pytest.mark.parametrize(
    ("request_fields", "given_for_all", "found"),
    [
        ({}, {"vocab_lang": "es", "vocab_n_words": 9}, {"vocab_lang": "es", "vocab_n_words": 9}),
        (
            {"vocab_lang": "en", "vocab_n_words": 5},
            {"vocab_lang": "es"},
            {"vocab_lang": "es", "vocab_n_words": 5},
        ),
        (
            {"vocab": {"lang": "en", "n_words": 5, "unit": "lemma"}},
            {"vocab_lang": "es", "vocab_n_words": 9},
            {"vocab": {"lang": "es", "n_words": 9, "unit": "lemma"}},
        ),
        ({"vocab": {"words": ["a"]}}, {"vocab_lang": "es"}, {"vocab": {"lang": "es"}}),
        ({"vocab": {"words": ["a"]}}, {"vocab_n_words": 9}, {"vocab": {"words": ["a"], "n_words": 9}}),
        ({"vocab": None}, {"vocab_lang": "es"}, {"vocab": None, "vocab_lang": "es"}),
    ],
)
def test_a_vocabulary_for_all_goes_where_an_item_has_its_own(
    request_fields: dict[str, Any], given_for_all: dict[str, Any], found: dict[str, Any]
) -> None:
    changed = body({**CHAT, **request_fields}, **given_for_all)
    assert {name: value for name, value in changed.items() if name.startswith("vocab")} == found


def test_parameters_have_the_types_of_their_fields() -> None:
    found = parameters("max_tokens=20&temperature=1&top_p=0.5&top_k=-1&repetition_penalty=1.1&vocab_n_words=7")
    numbers = {"max_tokens": 20, "temperature": 1.0, "top_p": 0.5, "top_k": -1, "repetition_penalty": 1.1}
    assert found == {**numbers, "vocab_n_words": 7}
    assert isinstance(found["temperature"], float)
    beams = {"num_beams": 4, "length_penalty": -1.0, "vocab_lang": "es"}
    assert parameters("num_beams=4&length_penalty=-1e0&vocab_lang=es") == beams
    assert set(PARAMETERS) == numbers.keys() | beams.keys() | {"vocab_n_words"}
    assert parameters("length_penalty=2") == {"length_penalty": 2.0}
    assert parameters("") == {}


@pytest.mark.parametrize(
    ("query", "param", "cause"),
    [
        ("max_token=5", "max_token", "Did you mean 'max_tokens'?"),
        ("messages=[]", "messages", "Unknown parameter"),
        ("MAX_TOKENS=5", "MAX_TOKENS", "Unknown parameter"),
        ("=", "", "Unknown parameter"),
        ("max_tokens=5&max_tokens=5", "max_tokens", "twice"),
        ("max_tokens=", "max_tokens", "an integer"),
        ("max_tokens=5.0", "max_tokens", "an integer"),
        ("max_tokens=٥", "max_tokens", "an integer"),
        ("max_tokens= 5", "max_tokens", "an integer"),
        ("max_tokens=0", "max_tokens", "an integer"),
        ("max_tokens=1_0", "max_tokens", "an integer"),
        ("max_tokens=" + "9" * 9999, "max_tokens", "an integer"),
        ("num_beams=17", "num_beams", "16"),
        ("temperature=nan", "temperature", "a number"),
        ("temperature=inf", "temperature", "a number"),
        ("temperature=1e99", "temperature", "a number"),
        ("temperature=true", "temperature", "a number"),
        ("top_p=0", "top_p", "a number"),
        ("vocab_lang=", "vocab_lang", "a word list"),
        ("vocab_lang=a\nb", "vocab_lang", "a word list"),
        ("vocab_n_words=0", "vocab_n_words", "an integer"),
        ("num_beams=4&repetition_penalty=1.2", "repetition_penalty", "cannot be combined"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(query: str, param: str, cause: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parameters(query)
    assert caught.value.param == param
    assert cause in caught.value.message
    assert len(caught.value.to_json()) < 1000
