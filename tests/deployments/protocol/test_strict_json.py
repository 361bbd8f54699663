"""What is not JSON, or too deep; and the lines of a file, as bytes."""

import io
import json
import tracemalloc
from typing import Any, BinaryIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployments.protocol.strict_json import JsonError, RawLine, loads, raw_lines
from deployments.storage import Location
from tests.deployments import buffered_files as buffered_files  # registers buffered://
from tests.deployments.front import Front, assert_error

MAX_DEPTH = 64

FAULTS = [
    (b'{"a":', "line 1 column 5"),
    (b'{"a": 1', "line 1 column 7"),
    (b'{"a": "canary', "line 1"),
    (b'{"a": NaN}', "line 1 column 7"),
    (b'{"a": Infinity}', "line 1 column 7"),
    (b'{"a": -Infinity}', "line 1 column 8"),
    (b'{"a": 1e999}', "too large"),
    (b'{"a": -1e0999}', "too large"),
    (b'{"a": ' + b"9" * 400 + b".5}", "too large"),
    (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
    (b'{"canary": 1,\n "canary": 2}', "used twice in one object, at line 2"),
    (b'{"a": {"canary": 1, "canar\\u0079": 2}}', "used twice in one object"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    ('{"a": 1}'.encode("utf-16"), "line 1 column 1"),
    (b'{"a": "canary\xff"}', "not valid UTF-8, at line 1 column 14"),
    (b'{"a": "\xed\xa0\x80"}', "not valid UTF-8"),
    (b'{"a": "canary\\ud800"}', "surrogate"),
    (b'{"a": "\\udc00canary"}', "surrogate"),
    (b'{"a":\n "canary\\u0000"}', "NUL character, at line 2 column 9"),
    (b'{"a\\u0000": 1}', "NUL character, at line 1 column 4"),
    (b'{"a": "\\\\\\u0000"}', "NUL character"),
    (b'{"a": "\x00"}', "control character"),
    (b'{"a": "canary\n"}', "control character"),
    (b"{'a': 1}", "line 1 column 2"),
    (b'{"a": 1,}', "line 1 column 9"),
    (b'{"a": 1} {}', "line 1 column 10"),
    (b'{"a": 01}', "line 1 column 8"),
    (b"// canary\n{}", "line 1 column 1"),
    (b"[" * 100_000, "nested too deeply"),
    (b"[" * 65 + b"]" * 65, "nested more than 64 levels deep"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "nested more than 64 levels deep"),
]


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 64 + b"]" * 64,
        b'{"a": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}',
        b'{"a": "\\\\u0000"}',
        b'{"a": "1e999 \\ud83d\\ude00"}',
        b'{"a": 1e308, "b": 1e-999}',
        b" \r\n\t[1, 2.5, true, false, null]\n",
        b'{"a": ' + b"9" * 41 + b"}",
    ],
)
def test_what_is_json_is_read_as_the_standard_library_reads_it(text: bytes) -> None:
    assert loads(text, MAX_DEPTH) == json.loads(text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))


@given(VALUES, st.booleans())
def test_every_value_that_is_written_is_read(value: Any, ensure_ascii: bool) -> None:
    assert loads(json.dumps(value, ensure_ascii=ensure_ascii).encode(), MAX_DEPTH) == value


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_text_does_worse_than_a_json_error(text: bytes) -> None:
    try:
        value = loads(text, MAX_DEPTH)
    except JsonError:
        return
    assert value == json.loads(text)


@pytest.mark.fault(11)
@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b"[" * 2**20,
        b'{"a":' * 200_000,
        b'{"a":"' + b"\\" * 2**20,
        b"9" * 2**20,
        b'["' + b"\\u0000" * 170_000,
    ],
    ids=["100,000 arrays", "a megabyte of arrays", "objects", "backslashes", "digits", "NULs"],
)
def test_a_hostile_text_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError):
        loads(text, MAX_DEPTH)


@pytest.mark.fault(10)
@pytest.mark.parametrize(("text", "said"), FAULTS, ids=[text[:24].decode("latin-1") for text, _ in FAULTS])
def test_a_body_that_is_not_json_gets_one_answer(front: Front, text: bytes, said: str) -> None:
    error = assert_error(front.chat(text), 400)
    assert said in error["message"]
    assert "canar" not in error["message"]
    assert not front.backend.calls


@pytest.mark.fault(11)
def test_a_million_messages_are_refused(front: Front) -> None:
    assert_error(front.chat(b'{"model":"stand-in","messages":[' + b"1," * 1_000_000 + b"1]}"), 413)
    assert_error(front.chat(b'{"model":"stand-in","messages":[' + b"1," * 500_000 + b"1]}"), 400, param="messages[0]")


def opened(content: bytes) -> BinaryIO:
    location = Location.of("buffered://bucket/in.jsonl")
    location.write([content])
    return location.open()


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"abcd", b"abcde"]) | st.binary(max_size=9)).map(b"".join)
)
@example(b"abcd\r\nx" + b"y" * 3_000_000 + b"\nz\n")
def test_lines_are_whole_or_too_long_and_each_can_be_read_from_its_start(content: bytes) -> None:
    expected, start = list[RawLine](), 0
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else (), start=1):
        text = line.removesuffix(b"\r")
        expected.append(RawLine(number, start, text if len(text) <= 4 else None))
        start += len(line) + 1
    for stream in (io.BytesIO(content), opened(content)):
        assert list(raw_lines(stream, 4)) == expected
        for one in expected:
            rest = raw_lines(stream, 4, start=one.start, number=one.number)
            assert list(rest) == expected[one.number - 1 :]


def test_a_line_that_is_too_long_is_not_held() -> None:
    stream = io.BytesIO(b"x" * 20_000_000 + b"\nshort\n")
    tracemalloc.start()
    try:
        assert [line.text for line in raw_lines(stream, 1000)] == [None, b"short"]
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
