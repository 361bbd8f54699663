"""Lines of a file as bytes."""

import io
import tracemalloc
from typing import BinaryIO

from hypothesis import given
from hypothesis import strategies as st

from deployments.protocol.strict_json import RawLine, raw_lines
from deployments.storage import Location
from tests.deployments import buffered_files as buffered_files  # registers buffered://


def opened(content: bytes) -> BinaryIO:
    location = Location.of("buffered://bucket/in.jsonl")
    location.write([content])
    return location.open()


def test_lines_are_whole_or_too_long() -> None:
    for content, texts in (
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nbb\n", [b"a", b"bb"]),
        (b"\n\n", [b"", b""]),
        (b"abcd\nabcde\nabc", [b"abcd", None, b"abc"]),
        (b"abcd\r\nabcde\r\nabcdef\rg", [b"abcd", None, None]),
        (b"abcd\r\nx" + b"y" * 3_000_000 + b"\nz\n", [b"abcd", None, b"z"]),
        (b"abcdef", [None]),
    ):
        for stream in (io.BytesIO(content), opened(content)):
            assert [line.text for line in raw_lines(stream, 4)] == texts


def test_each_line_says_where_it_starts_and_can_be_read_from_there() -> None:
    for stream in (io.BytesIO(content := b"one\n" + b"long" * 9 + b"\n\nfour"), opened(content)):
        lines = list(raw_lines(stream, 5))
        assert lines[0] == RawLine(1, 0, b"one")
        for line in lines:
            assert list(raw_lines(stream, 5, start=line.start, number=line.number)) == lines[line.number - 1 :]


@given(st.lists(st.binary(max_size=12).filter(lambda text: b"\n" not in text and not text.endswith(b"\r"))))
def test_lines_come_out_as_they_were_joined(texts: list[bytes]) -> None:
    lines = list(raw_lines(io.BytesIO(b"".join(text + b"\n" for text in texts)), 10))
    assert [line.text for line in lines] == [text if len(text) <= 10 else None for text in texts]
    assert [line.number for line in lines] == list(range(1, len(texts) + 1))


def test_a_line_that_is_too_long_is_not_held() -> None:
    stream = io.BytesIO(b"x" * 20_000_000 + b"\nshort\n")
    tracemalloc.start()
    try:
        assert [line.text for line in raw_lines(stream, 1000)] == [None, b"short"]
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
