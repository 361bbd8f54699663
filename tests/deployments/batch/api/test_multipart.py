"""Which forms are taken."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.batch.api.multipart import MAX_FILENAME_CHARS, Form, Upload
from deployments.errors import BadRequestError, UnsupportedMediaTypeError
from tests.deployments.batch.forms import BOUNDARY, CONTENT_TYPE, form, part


def read(body: bytes | Sequence[bytes], fields: Sequence[str] = (), content_type: str = CONTENT_TYPE) -> Upload:
    arriving = Form(content_type, fields)
    for piece in [body] if isinstance(body, bytes) else body:
        arriving.add(piece)
    return arriving.upload()


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 10_000])
def test_a_file_comes_out_as_it_went_in_however_it_is_cut(piece_bytes: int) -> None:
    content = f"a\r\n--{BOUNDARY[:-1]}\r\n\r\n--\r\n--{BOUNDARY}x\r\n\n\r".encode()
    body = form(part(b"batch", 'name="purpose"'), part(content))
    upload = read([body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)], ("purpose",))
    assert upload == Upload("a.jsonl", content, {"purpose": "batch"})


def test_a_file_without_a_name_is_a_file() -> None:
    assert read(form(part(b"[]", 'name="file"'))).filename == "file"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("größe.jsonl", "größe.jsonl"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("C:\\\\a\\\\b.jsonl", "b.jsonl"),
        ("a\tb\x00c\u202e.jsonl", "a\ufffdb\ufffdc\ufffd.jsonl"),
        ("x" * 300, "x" * (MAX_FILENAME_CHARS - 1) + "…"),
        ("", "file"),
    ],
)
def test_the_name_of_a_file_is_a_line_that_can_be_shown(sent: str, kept: str) -> None:
    filename = read(form(part(disposition=f'name="file"; filename="{sent}"'))).filename
    assert filename == kept
    assert len(filename) <= MAX_FILENAME_CHARS


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "multipart/mixed; boundary=a", "multipart/form-datax; boundary=a", "a" * 999],
)
def test_what_says_it_is_no_form_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        read(form(part()), content_type=content_type)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "too early"),
        (b"x", "no valid"),
        (part(), "too early"),
        (f"--{BOUNDARY}".encode(), "too early"),
        (f"--{BOUNDARY}--\r\n".encode(), "provide a file"),
        (form(part(disposition='name="purpose"')), "provide a file"),
        (form(part(disposition='name="extra"')), "Unknown part"),
        (form(part(disposition='filename="a"')), "Unknown part"),
        (form(f"--{BOUNDARY}\r\n\r\nx\r\n".encode()), "Unknown part"),
        (form(part(disposition='name="' + "e" * 3000 + '"')), "Unknown part"),
        (form(part(), part()), "twice"),
        (form(part(b"x" * 1025, 'name="purpose"')), "at most 1024"),
        (form(part(b"x", 'name="file"', *(["A: b"] * 20))), "no valid"),
        (form(part(b"x", 'name="file"', "A: " + "b" * 5000)), "no valid"),
        (form(part(b"x", 'name="file"', "A" * 5000 + ": b")), "no valid"),
        (form(part(b"x", 'name="file"', "no header")), "no valid"),
    ],
)
def test_a_bad_form_is_refused(body: bytes, cause: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read(body, ("purpose",))
    assert cause in caught.value.message
    assert len(caught.value.to_json()) < 1000


@pytest.mark.parametrize("boundary", ["", '""', "a" * 300])
def test_a_boundary_that_is_none_is_refused(boundary: str) -> None:
    with pytest.raises(BadRequestError, match="boundary"):
        read(form(part()), content_type=f"multipart/form-data; boundary={boundary}")


@given(st.lists(st.binary(max_size=30) | st.sampled_from([part(), form(), b"\r\n--", b"\r\n\r\n", b"--"]), max_size=8))
def test_whatever_is_sent_is_a_form_or_an_error_of_the_callers(pieces: list[bytes]) -> None:
    with suppress(BadRequestError):
        read(pieces, ("purpose",))


@given(st.binary(max_size=200), st.text(st.characters(codec="utf-8"), max_size=20), st.integers(1, 50))
def test_what_a_real_client_sends_is_read(content: bytes, field: str, piece_bytes: int) -> None:
    files: dict[str, Any] = {"file": ("a.jsonl", content), "purpose": (None, field)}
    request = httpx.Request("POST", "http://localhost", files=files)
    body = request.read()
    pieces = [body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)]
    upload = read(pieces, ("purpose",), content_type=request.headers["content-type"])
    assert upload == Upload("a.jsonl", content, {"purpose": field})
