"""Row 50 of the faults: what a line of a batch may be."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.batch.lines import Line, read_lines
from deployments.errors import ApiError
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.settings.limits import Limits
from tests.deployments.front import CHAT, LIMITS, MODEL, chat_body


def line(custom_id: Any = "a", **changes: Any) -> bytes:
    """A good line with changes; a member that is set to ``...`` is left out."""
    members = {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": chat_body(), **changes}
    return json.dumps({name: value for name, value in members.items() if value is not ...}).encode()


def read(content: bytes, limits: Limits = LIMITS) -> list[Line]:
    return list(
        read_lines(
            io.BytesIO(content), reader=ChatRequestReader(ServedModel(MODEL, limits)), limits=limits, endpoint=CHAT
        )
    )


def bad_line(text: bytes, limits: Limits = LIMITS) -> Line:
    """A line at fault, between two good ones."""
    items = read(b"\n".join([line("before"), text, line("after")]), limits)
    assert [item.number for item in items] == [1, 2, 3]
    assert [item.fault is None for item in items] == [True, False, True]
    return items[1]


def fault(text: bytes, limits: Limits = LIMITS) -> ApiError:
    found = bad_line(text, limits).fault
    assert found is not None
    return found


def test_good_lines_come_in_order_with_what_they_ask_for() -> None:
    body = chat_body("Olá!", vocab={"lang": "en", "n_words": 100}, temperature=0.5, stream=False)
    items = read(line("first") + b"\n" + line("second", body=body) + b"\n")
    assert items == [Line(1, "first", chat_body()), Line(2, "second", body)]


FAULTS: list[tuple[bytes, str, str | None, str]] = [
    (b"", "blank_line", None, "blank"),
    (b" \t\r", "blank_line", None, "blank"),
    (b"{", "invalid_json_line", None, "at column"),
    (b"{'custom_id': 1}", "invalid_json_line", None, "not valid JSON"),
    (line() + line(), "invalid_json_line", None, "not valid JSON"),
    (b'{"custom_id": NaN}', "invalid_json_line", None, "not valid JSON"),
    (b"\xef\xbb\xbf" + line(), "invalid_json_line", None, "byte order mark"),
    (b"[" * 100_000, "invalid_json_line", None, "nested"),
    ("é".encode("latin-1"), "invalid_json_line", None, "UTF-8"),
    (line("é").decode("unicode-escape").encode("latin-1"), "invalid_json_line", None, "UTF-8"),
    (b"[]", "invalid_line", None, "object"),
    (b"null", "invalid_line", None, "object"),
    (line(...), "missing_custom_id", "custom_id", "custom_id"),
    (line(None), "missing_custom_id", "custom_id", "custom_id"),
    (line(7), "invalid_custom_id", "custom_id", "string"),
    (line(""), "invalid_custom_id", "custom_id", "string"),
    (line("x" * 513), "invalid_custom_id", "custom_id", "512"),
    (line("before"), "duplicate_custom_id", "custom_id", "line 1"),
    (line(extra=1), "invalid_line", "extra", "'extra'"),
    (line(method="GET"), "invalid_method", "method", "POST"),
    (line(method=...), "invalid_method", "method", "POST"),
    (line(url="/v1/embeddings"), "invalid_url", "url", CHAT),
    (line(url=...), "invalid_url", "url", CHAT),
    (line(body=...), "invalid_body", "body", "object"),
    (line(body="tell me"), "invalid_body", "body", "object"),
    (line(body=chat_body(stream=True)), "invalid_request", "stream", "stream"),
    (line(body=chat_body(model="other")), "model_not_found", "model", "'other'"),
    (line(body=chat_body(vocab_langs="en")), "invalid_request", "vocab_langs", "Unknown vocabulary field"),
    (line(body=chat_body(max_tokens=0)), "invalid_request", "max_tokens", "integer"),
    (line(body=chat_body(vocab={"lang": "en", "source": "wordfreq"})), "invalid_request", "vocab.source", "left out"),
    (
        line(body=chat_body([{"type": "image_url", "image_url": {"url": "data:"}}])),  # type: ignore[arg-type]
        "invalid_request",
        "messages[0].content[0]",
        "text",
    ),
]


@pytest.mark.fault(50)
def test_a_faulty_line_names_its_number_and_cause_and_the_others_are_read() -> None:
    wrong = []
    for text, code, param, cause in FAULTS:
        found = fault(text)
        if (found.code, found.param) != (code, param) or cause not in found.message or len(found.message) >= 1000:
            wrong.append((text[:60], found))
    assert wrong == []


def test_a_fault_has_the_name_of_its_line_unless_it_is_another_lines() -> None:
    assert bad_line(line("mine", body=chat_body(model="other"))).custom_id == "mine"
    assert bad_line(line("mine", extra=1)).custom_id == "mine"
    assert bad_line(line("before", extra=1)).custom_id is None
    assert bad_line(b"{").custom_id is None


def test_a_name_that_a_faulty_line_used_is_used() -> None:
    items = read(b"\n".join([line("a", method="GET"), line("a"), line("a")]))
    assert [item.custom_id for item in items] == ["a", None, None]
    assert ["line 1" in str(item.fault) for item in items] == [False, True, True]
    assert items[0].fault is not None


@pytest.mark.fault(50)
def test_a_line_that_is_too_long_is_skipped() -> None:
    limits = Limits(max_body_bytes=2000)
    fits = line(body=chat_body("x" * (2000 - len(line(body=chat_body(""))))))
    assert len(fits) == 2000
    assert read(fits, limits)[0].fault is None
    for num_bytes in (2001, 3000, 302_000):
        assert fault(b"x" * num_bytes, limits).code == "line_too_long"
        assert [item.number for item in read(b"x" * num_bytes, limits)] == [1]


@given(st.lists(st.binary(max_size=60) | st.just(line()) | st.text(max_size=20).map(line), max_size=20))
def test_every_line_gives_one_item_whatever_it_holds(texts: list[bytes]) -> None:
    content = b"\n".join(texts)
    num_lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    items = read(content)
    assert [item.number for item in items] == list(range(1, num_lines + 1))
    names = [item.custom_id for item in items if item.custom_id is not None]
    assert len(names) == len(set(names))
