"""Files that are made to do harm, sent to the running service by a stranger with a key."""

import time

import httpx2
import pytest

from tests.e2e.service import KEY, KEYS, Service
from tests.vocab.documents.books import HOSTILE, STORY, docx, slow_pdf

pytestmark = pytest.mark.e2e

DAMAGED = "The file cannot be read: the file is damaged; save it anew, or as plain text."


def post(service: Service, data: bytes, key: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.post(f"{service.url}/v1/documents/text", content=data, headers=headers, timeout=60)


def test_hostile_files_get_fixed_texts_and_a_bounded_time_of_a_processor(service: Service) -> None:
    for name, make in HOSTILE.items():
        answer = post(service, make(), KEYS["other"])
        is_fixed = answer.status_code == 400 and answer.json()["error"]["message"] == DAMAGED
        assert answer.status_code == 200 or is_fixed, (name, answer.text[:500])
    started = time.monotonic()
    slow = post(service, slow_pdf(), KEYS["loud"])
    assert "it takes more than 10 s to read" in slow.json()["error"]["message"], slow.text[:500]
    assert time.monotonic() - started < 50
    refused = post(service, b"one", KEYS["loud"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert int(refused.headers["Retry-After"]) >= 1
    assert post(service, docx(STORY), KEY).status_code == 200
