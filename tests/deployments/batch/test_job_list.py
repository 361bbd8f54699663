"""The list of the simple route, and the parameters of its query string."""

import io
import json
from typing import Any

import pytest

from deployments.batch.lines import Line, read_lines, to_lines
from deployments.errors import BadRequestError
from deployments.protocol.batches import ENDPOINT, PARAMETERS, read_parameters
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.settings.limits import Limits
from tests.deployments.front import LIMITS, MODEL, SERVED, chat_body

CHAT = {"messages": [{"role": "user", "content": "Tell me a story."}]}


def lines(content: bytes | list[Any], max_lines: int = 100, **parameters: Any) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b"".join(to_lines(text, parameters, model_id=MODEL, max_lines=max_lines))


def items(content: bytes | list[Any], limits: Limits = LIMITS, **parameters: Any) -> list[Line]:
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
    assert [item.body["model"] for item in found] == [MODEL] * 3
    assert found[2].body == chat_body('a "{[,]}" \\ b')


def test_an_item_that_is_no_object_or_too_long_is_a_line_at_fault_and_the_others_are_read() -> None:
    too_long = {"messages": ["x,\n"] * 2000}
    for item in (None, 1, "tell me", [], [CHAT], True, too_long):
        found = items([CHAT, item, CHAT], Limits(max_body_bytes=2000))
        assert [line.fault is None for line in found] == [True, False, True]
        assert found[1].fault is not None
        expected = (None, "line_too_long") if item is too_long else ("1", "invalid_body")
        assert (found[1].custom_id, found[1].fault.code) == expected


def test_what_is_no_list_is_refused_and_the_place_named() -> None:
    for content, cause in [
        (b"", "ends too early"), (b"{}", "must be a JSON list"), (b'"[]"', "must be a JSON list"),
        (b"\xef\xbb\xbf[]", "byte order mark"), (b"[{}", "ends too early"), (b"[{}}", "column 4"),
        (b"[{}] x", "column 6"), (b" [\n] ", "no items"), (b"[{},]", "column 5"), (b"[{},NaN]", "column"),
        (b'[{"a":1,"a":1}]', "a name is used twice"), (b'["\xff"]', "not valid UTF-8"), (b"[" * 300_000, "list"),
        (b"[" + b"{}," * 100 + b"{}]", "more than 100 items"),
    ]:  # fmt: skip
        with pytest.raises(BadRequestError, match=r"(?i)list") as caught:
            lines(content)
        assert cause in caught.value.message
        assert caught.value.param == "file"
    assert lines([CHAT] * 100).count(b"\n") == 100


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


VOCABULARIES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"vocab_lang": "es", "vocab_n_words": 9}, {"vocab_lang": "es", "vocab_n_words": 9}),
    ({"vocab_lang": "en", "vocab_n_words": 5}, {"vocab_lang": "es"}, {"vocab_lang": "es", "vocab_n_words": 5}),
    (
        {"vocab": {"lang": "en", "n_words": 5, "unit": "lemma"}},
        {"vocab_lang": "es", "vocab_n_words": 9},
        {"vocab": {"lang": "es", "n_words": 9, "unit": "lemma"}},
    ),
    ({"vocab": {"words": ["a"]}}, {"vocab_lang": "es"}, {"vocab": {"lang": "es"}}),
    ({"vocab": {"words": ["a"]}}, {"vocab_n_words": 9}, {"vocab": {"words": ["a"], "n_words": 9}}),
    ({"vocab": None}, {"vocab_lang": "es"}, {"vocab": None, "vocab_lang": "es"}),
]
"""An item's own vocabulary, that of the query, and what the line has."""


def test_a_vocabulary_for_all_goes_where_an_item_has_its_own() -> None:
    for own, for_all, expected in VOCABULARIES:
        changed = body({**CHAT, **own}, **for_all)
        assert {name: value for name, value in changed.items() if name.startswith("vocab")} == expected


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


BAD_PARAMETERS = [
    ("max_token=5", "max_token", "Did you mean 'max_tokens'?"),
    ("messages=[]", "messages", "Unknown parameter"),
    ("MAX_TOKENS=5", "MAX_TOKENS", "Unknown parameter"),
    ("=", "", "Unknown parameter"),
    ("max_tokens=5&max_tokens=5", "max_tokens", "twice"),
    *(
        (f"max_tokens={value}", "max_tokens", "an integer")
        for value in ("", "5.0", "\N{ARABIC-INDIC DIGIT FIVE}", " 5", "0", "1_0", "9" * 9999)
    ),
    ("num_beams=17", "num_beams", "16"),
    *((f"temperature={value}", "temperature", "a number") for value in ("nan", "inf", "1e99", "true")),
    ("top_p=0", "top_p", "a number"),
    ("vocab_lang=", "vocab_lang", "a word list"),
    ("vocab_lang=a\nb", "vocab_lang", "a word list"),
    ("vocab_n_words=0", "vocab_n_words", "an integer"),
    ("num_beams=4&repetition_penalty=1.2", "repetition_penalty", "cannot be combined"),
]


def test_a_bad_parameter_is_refused_by_name() -> None:
    wrong = []
    for query, param, cause in BAD_PARAMETERS:
        with pytest.raises(BadRequestError) as caught:
            parameters(query)
        refused = caught.value
        if refused.param != param or cause not in refused.message or len(refused.to_json()) >= 1000:
            wrong.append((query[:60], refused.to_json()))
    assert wrong == []
