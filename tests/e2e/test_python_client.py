"""Every method of the Python clients against the running application."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, MODEL, Service
from wordbound import AsyncClient, Client, RefusedError, ServiceError
from wordbound.routes import Routes, Vocab

pytestmark = pytest.mark.e2e

EN: Vocab = {"lang": "en", "n_words": 1000}
TEXT = "The dog found some money on the road. They took it to the police. The captain was happy."


@pytest.fixture(params=[False, True], ids=["sync", "async"])
async def ask(service: Service, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Calls a method of a client of either kind; both wait for a busy service."""
    if request.param:
        async with AsyncClient(service.url, KEY, max_retries=10) as client:
            yield lambda method, *args, **kwargs: getattr(client, method)(*args, **kwargs)
    else:
        with Client(service.url, KEY, max_retries=10) as blocking:
            yield lambda method, *args, **kwargs: asyncio.to_thread(getattr(blocking, method), *args, **kwargs)


async def test_lists_and_words(ask: Any) -> None:
    found = await ask("vocabularies")
    assert {"en", "top-1000"} <= {one["id"] for one in found["data"]}
    words = await ask("words", "en", q="cat", limit=3)
    assert words["data"][0]["word"].startswith("cat")
    assert len(words["data"]) == 3
    read = await ask("read_words", b"word;level\nHund, -e;A1\n", "words.csv", lang="de")
    assert [(entry["word"], entry["level"], entry["forms"]) for entry in read["entries"]] == [("Hund", "A1", ["Hunde"])]


async def test_a_text_is_checked_and_mended(ask: Any) -> None:
    report = await ask("check", TEXT, EN, words=True)
    [captain] = report["not_allowed"]
    assert (captain["word"], len(report["words"])) == ("captain", report["num_words"])
    others = await ask("swap", TEXT, captain["start"], captain["end"], EN, top=2)
    assert (others["word"], len(others["data"])) == ("captain", 2)
    found = await ask("next_words", "The dog was", EN, top=2)
    assert [word["rank"] for word in found["data"]] == [1, 2]
    rewritten = await ask("rewrite", TEXT, EN, candidates=0)
    assert_only_listed_words(rewritten["text"], "en", 1000)
    [change] = rewritten["changes"]
    assert TEXT[change["start"] : change["end"]] == change["from"]


async def test_exercises_and_documents(ask: Any) -> None:
    made = await ask("exercises", TEXT, EN, kinds=["dictation", "order"], num_items=2)
    assert [exercise["kind"] for exercise in made["exercises"]] == ["dictation", "order"]
    sheet = await ask("worksheet", made["exercises"], "txt", title="Dogs", text=TEXT)
    assert sheet.decode().startswith("Dogs")
    document = await ask("document", TEXT, title="Dogs", glossary=[{"word": "captain", "note": "who leads"}])
    text = await ask("document_text", document, "dogs.docx")
    assert TEXT in text
    assert "who leads" in text


async def test_rows_and_scores(ask: Any) -> None:
    table = await ask("tokens")
    rows = await ask("logprobs", [[1, 2], [3]])
    assert (rows.shape, rows.dtype) == ((2, table["vocab_size"]), np.float32)
    best = await ask("top_logprobs", [[1, 2]], 3)
    assert best["data"][0]["token_ids"][0] == rows[0].argmax()
    scores = await ask("token_logprobs", [1, 2], [5, 6])
    assert scores["logprobs"][0] == pytest.approx(rows[0, 5], abs=0.1)


async def test_any_other_route_and_streams(service: Service, ask: Any) -> None:
    assert (await ask("get", "/v1/models"))["data"][0]["id"] == MODEL
    assert (await ask("post", "/tokenize", {"prompt": "A dog."}, is_safe=True))["count"] > 1
    async with AsyncClient(service.url, KEY) as client:
        *parts, whole = [
            event async for event in client.events("/v1/vocabularies/rewrite", {"text": TEXT, "vocab": EN})
        ]
    assert "".join(part["text"] for part in parts) == whole["text"]
    with Client(service.url, KEY) as blocking:
        *parts, whole = blocking.events("/v1/vocabularies/rewrite", {"text": TEXT, "vocab": EN})
    assert "".join(part["text"] for part in parts) == whole["text"]


async def test_what_the_service_refuses_is_an_error_with_its_field(service: Service, ask: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        await ask("rewrite", TEXT, {"lang": "xx"})
    assert (caught.value.status, caught.value.param) == (400, "vocab.lang")
    assert caught.value.request_id
    with Client(service.url, "another key") as client, pytest.raises(ServiceError, match="does not know this key"):
        client.vocabularies()


def test_every_method_is_asked_here() -> None:
    source = "".join(inspect.getsource(test) for name, test in globals().items() if name.startswith("test_"))
    methods = [name for name in vars(Routes) if not name.startswith("_")]
    assert [name for name in methods if f'ask("{name}"' not in source] == []
