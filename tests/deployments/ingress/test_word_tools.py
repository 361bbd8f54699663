"""The routes of the word tools, over a real connection and a stand-in for the replica."""

from typing import Any, get_args

import httpx
import pytest

from deployments.contract import Tool
from deployments.protocol.word_tools import EXERCISE_KINDS, MAX_ITEMS
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import MAX_NEXT_ROWS, MAX_NEXT_WORDS, MAX_REWRITE_TOKENS, MAX_TOOL_CHARS
from tests.deployments.front import MODEL, Front, assert_error, client_of, wait_until

NEXT, SWAP, REWRITE, EXERCISES = (f"/v1/vocabularies/{tool}" for tool in get_args(Tool))
EN = {"lang": "en", "n_words": 1000}

GOOD: dict[str, dict[str, Any]] = {
    NEXT: {"text": "The cat sat on the"},
    SWAP: {"text": "The cat sat on the", "start": 4, "end": 7},
    REWRITE: {"text": "The cat sat on the mat."},
    EXERCISES: {"text": "The cat sat on the mat."},
}
"""Of each route, what a request needs besides its vocabulary."""

PATHS = list(GOOD)


@pytest.mark.parametrize("path", PATHS)
def test_a_request_reaches_a_replica_with_its_list(front: Front, path: str) -> None:
    result = front.post(path, {"model": MODEL, "vocab": EN | {"extra_words": ["Ana"]}, **GOOD[path]})
    assert result.status_code == 200, result.text
    [call] = front.backend.calls
    assert call.body["tool"] == path.rpartition("/")[2]
    assert call.body.items() >= GOOD[path].items()
    assert call.vocabulary is not None and call.vocabulary.changes_digest is not None
    assert call.body["spec"].extra_words == ("Ana",)
    assert not {"vocab", "vocab_lang", "model"} & call.body.keys()
    wait_until(lambda: call.is_closed)


def test_a_request_that_names_no_number_gets_twenty_words(front: Front) -> None:
    assert front.post(NEXT, {"text": "a", "vocab_lang": "en", "vocab_n_words": 500}).json()["top"] == 20
    assert front.post(NEXT, {"text": "a", "vocab": EN, "top": 3}).json()["top"] == 3


def test_exercises_are_of_all_kinds_and_five_items_unless_asked_otherwise(front: Front) -> None:
    told = front.post(EXERCISES, {"text": "a", "vocab": EN}).json()
    assert (told["kinds"], told["num_items"]) == (list(EXERCISE_KINDS), 5)
    told = front.post(EXERCISES, {"text": "a", "vocab": EN, "kinds": ["order", "questions", "order"]}).json()
    assert told["kinds"] == ["order", "questions"]
    for fields, param in (
        ({"kinds": []}, "kinds"),
        ({"kinds": ["crossword"]}, "kinds[0]"),
        ({"num_items": 0}, "num_items"),
        ({"num_items": MAX_ITEMS + 1}, "num_items"),
    ):
        assert_error(front.post(EXERCISES, {"text": "a", "vocab": EN, **fields}), 400, param=param)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"vocab": None}, "vocab"),
        ({"vocab": {"n_words": 5}}, "vocab.lang"),
        ({"vocab": EN | {"search": 2}}, "vocab.search"),
        ({"vocab": EN | {"hint": True}}, "vocab.hint"),
        ({"vocab": EN | {"min_sentences": 2}}, "vocab.min_sentences"),
        ({"vocab": EN, "vocab_lang": "en"}, "vocab_lang"),
        ({"text": None}, "text"),
        ({"text": 1}, "text"),
        ({"text": "a" * (MAX_TOOL_CHARS + 1)}, "text"),
        ({"messages": []}, "messages"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name_and_goes_no_further(
    front: Front, path: str, fields: dict[str, Any], param: str
) -> None:
    assert_error(front.post(path, {"vocab": EN, **GOOD[path], **fields}), 400, param=param)
    assert not front.backend.calls


@pytest.mark.parametrize("top", [0, -1, MAX_NEXT_WORDS + 1, "5", 1.5])
def test_how_many_words_is_a_number_within_the_limits(front: Front, top: Any) -> None:
    error = assert_error(front.post(NEXT, {"text": "a", "vocab": EN, "top": top}), 400, param="top")
    assert f"from 1 to {MAX_NEXT_WORDS}" in error["message"]


@pytest.mark.parametrize("path", PATHS)
def test_the_routes_are_as_others_are(front: Front, path: str) -> None:
    good = {"vocab": EN, **GOOD[path]}
    with front.client(key=None) as client:
        assert_error(client.post(path, json=good), 401, code="invalid_api_key")
    assert_error(front.post(path, {**good, "model": "b"}), 404, param="model", code="model_not_found")
    assert_error(front.get(path), 405)
    assert_error(
        front.post(path, {**good, "vocab": {"lang": "xx"}}), 400, param="vocab.lang", code="invalid_vocabulary"
    )
    for wish, status, code in (
        ("refuse", 400, "context_length_exceeded"), ("fail", 500, "internal_error"), ("be busy", 503, "overloaded"),
    ):  # fmt: skip
        place = {"start": 0, "end": 6} if path == SWAP else {}
        answer = front.post(path, {**good, "text": f"please {wish}", **place})
        assert_error(answer, status, param="prompt" if status == 400 else None, code=code)


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_ends_the_work(front: Front, path: str) -> None:
    with front.client() as client, pytest.raises(httpx.ReadTimeout):
        place = {"start": 0, "end": 6} if path == SWAP else {}
        client.post(path, json={"vocab": EN, **GOOD[path], "text": "please stall", **place}, timeout=1)
    [call] = front.backend.calls
    wait_until(lambda: call.is_closed)


async def test_a_request_counts_towards_the_tokens_of_its_key_and_is_for_chats() -> None:
    keys = {
        "slow": Key(sha256=digest_of(b"slow-key"), tokens_per_minute=MAX_NEXT_ROWS + 10),
        "batches": Key(sha256=digest_of(b"batch-key"), use="batches"),
    }
    async with client_of(keys=keys) as client:

        async def status(key: str, text: str) -> int:
            body = {"text": text, "vocab": EN}
            return (await client.post(NEXT, json=body, headers={"X-API-Key": key})).status_code

        assert await status("slow-key", "a" * 80) == 400
        assert [await status("slow-key", "a" * 40) for _ in range(2)] == [200, 429]
        assert await status("batch-key", "a") == 403


@pytest.mark.parametrize(
    ("text", "start", "end", "param", "result"),
    [
        ("The cat", 4, 8, "end", "at most 7"),
        ("The cat", 4, 4, "start", "less than 'end'"),
        ("The cat", 7, 7, "start", "less than 'end'"),
        ("The cat", 3, 7, "start", "nearest is 'cat', from 4 to 7"),
        ("The cat", 4, 6, "start", "nearest is 'cat', from 4 to 7"),
        ("The cat", 0, 7, "start", "nearest is 'The'"),
        ("The cat", 5, 7, "start", "nearest"),
        ("?! ...", 0, 2, "start", "there is none"),
        ("The cat", -1, 2, "start", "from 0 to"),
        ("The cat", 1.5, 2, "start", "integer"),
    ],
)
def test_offsets_are_those_of_one_word(front: Front, text: str, start: Any, end: Any, param: str, result: str) -> None:
    answer = front.post(SWAP, {"vocab": EN, "text": text, "start": start, "end": end})
    assert result in assert_error(answer, 400, param=param)["message"]


@pytest.mark.parametrize(
    ("text", "word"), [("l'homme", "homme"), ("l'homme", "l'"), ("a well-known one", "well-known"), ("😀 Né!", "Né")]
)
def test_offsets_count_code_points_and_elided_words_are_words(front: Front, text: str, word: str) -> None:
    start = text.index(word)
    body = {"vocab": EN, "text": text, "start": start, "end": start + len(word)}
    assert front.post(SWAP, body).status_code == 200


def test_a_rewritten_text_is_sent_in_parts_where_that_is_asked_for(front: Front) -> None:
    whole = front.post(REWRITE, {"vocab": EN, "text": "One. Two."}).json()
    assert (whole["keep_names"], whole["force"], whole["candidates"]) == (True, False, 1)
    answer = front.post(REWRITE, {"vocab": EN, "text": "One. Two.", "stream": True, "keep_names": False})
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, last, done, _ = answer.text.split("\n\n")
    assert (first, done) == ('data: {"text":"One."}', "data: [DONE]")
    assert '"keep_names": false' in last
    broken = front.post(REWRITE, {"vocab": EN, "text": "One!please fail", "stream": True}).text
    assert "error" in broken.split("\n\n")[1] and "[DONE]" not in broken


@pytest.mark.parametrize(
    ("field", "value"),
    [("candidates", 9), ("candidates", -1), ("temperature", 3), ("seed", "a"), ("stream", 1), ("text", "")],
)
def test_what_a_rewriting_cannot_do_is_refused(front: Front, field: str, value: Any) -> None:
    body = {"vocab": EN, "text": "One.", field: value}
    assert_error(front.post(REWRITE, body), 400, param=field)
    assert not front.backend.calls


@pytest.mark.parametrize(
    ("path", "num_chars", "fields", "cost"),
    [
        (NEXT, 400, {}, 100 + MAX_NEXT_ROWS),
        (SWAP, 10_000, {"start": 0, "end": 1}, 22_500 + MAX_NEXT_ROWS),
        (REWRITE, 100, {}, 5_000),
        (REWRITE, 20_000, {}, MAX_REWRITE_TOKENS),
        (EXERCISES, 1, {"num_items": 5, "kinds": ["order", "gap_fill"]}, 20_000),
    ],
)
async def test_each_tool_counts_what_it_may_read(path: str, num_chars: int, fields: Any, cost: int) -> None:
    rate = 10**9
    async with client_of(key="rich", keys={"rich": Key(sha256=digest_of(b"rich"), tokens_per_minute=rate)}) as client:
        text = "a" + " " * (num_chars - 2) + "a" if num_chars > 1 else "a"
        answer = await client.post(path, json={"text": text, "vocab": EN, **fields})
    assert answer.status_code == 200, answer.text
    assert rate - int(answer.headers["x-ratelimit-remaining-tokens"]) == cost
