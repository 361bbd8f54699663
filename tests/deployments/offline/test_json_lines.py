"""Lines of a file as bytes."""

import io

import pytest

from deployments.offline.json_lines import RawLine, raw_lines


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nbb\n", [b"a", b"bb"]),
        (b"\n\n", [b"", b""]),
        (b"abcd\nabcde\nabc", [b"abcd", None, b"abc"]),
        (b"abcd\r\nx" + b"y" * 3_000_000 + b"\nz\n", [b"abcd", None, b"z"]),
        (b"abcdef", [None]),
    ],
)
def test_lines_are_whole_or_too_long(content: bytes, texts: list[bytes | None]) -> None:
    assert [line.text for line in raw_lines(io.BytesIO(content), 4)] == texts


def test_each_line_says_where_it_starts_and_can_be_read_from_there() -> None:
    stream = io.BytesIO(b"one\n" + b"long" * 9 + b"\n\nfour")
    lines = list(raw_lines(stream, 5))
    assert lines[0] == RawLine(1, 0, b"one")
    for line in lines:
        assert list(raw_lines(stream, 5, start=line.start, number=line.number)) == lines[line.number - 1 :]
