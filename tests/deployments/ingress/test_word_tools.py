"""The routes of the word tools, over a real connection and a stand-in for the replica."""

from typing import Any

import pytest

from deployments.protocol.word_tools import EXERCISE_KINDS
from tests.deployments.front import MODEL, Front, wait_until
from tests.deployments.ingress.test_refusals import EN, EXERCISES, GOOD, NEXT, REWRITE, SWAP, TOOLS


@pytest.mark.parametrize("path", TOOLS)
def test_a_request_reaches_a_replica_with_its_list(front: Front, path: str) -> None:
    result = front.post(path, {"model": MODEL, **GOOD[path], "vocab": EN | {"extra_words": ["Ana"]}})
    assert result.status_code == 200, result.text
    [call] = front.backend.calls
    assert call.body["tool"] == path.rpartition("/")[2]
    assert {name: call.body[name] for name in GOOD[path].keys() - {"vocab"}}.items() <= GOOD[path].items()
    assert call.vocabulary is not None and call.vocabulary.changes_digest is not None
    assert call.body["spec"].extra_words == ("Ana",)
    assert not {"vocab", "vocab_lang", "model"} & call.body.keys()
    wait_until(lambda: call.is_closed)


def test_what_is_not_asked_for_has_its_default(front: Front) -> None:
    def passed_on(path: str, **fields: Any) -> dict[str, Any]:
        result: dict[str, Any] = front.post(path, {"text": "a", "vocab": EN, **fields}).json()
        return result

    assert front.post(NEXT, {"text": "a", "vocab_lang": "en", "vocab_n_words": 500}).json()["top"] == 20
    assert passed_on(NEXT, top=3)["top"] == 3
    exercises = passed_on(EXERCISES)
    assert (exercises["kinds"], exercises["num_items"]) == (list(EXERCISE_KINDS), 5)
    assert passed_on(EXERCISES, kinds=["order", "questions", "order"])["kinds"] == ["order", "questions"]
    rewritten = passed_on(REWRITE)
    assert (rewritten["keep_names"], rewritten["force"], rewritten["candidates"]) == (True, False, 1)


def test_offsets_count_code_points_and_elided_words_are_words(front: Front) -> None:
    for text, word in (("l'homme", "homme"), ("l'homme", "l'"), ("a well-known one", "well-known"), ("😀 Né!", "Né")):
        start = text.index(word)
        body = {"vocab": EN, "text": text, "start": start, "end": start + len(word)}
        assert front.post(SWAP, body).status_code == 200, word


def test_a_rewritten_text_is_sent_in_parts_where_that_is_asked_for(front: Front) -> None:
    answer = front.post(REWRITE, {"vocab": EN, "text": "One. Two.", "stream": True, "keep_names": False})
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, last, done, _ = answer.text.split("\n\n")
    assert (first, done) == ('data: {"text":"One."}', "data: [DONE]")
    assert '"keep_names": false' in last
    broken = front.post(REWRITE, {"vocab": EN, "text": "One!please fail", "stream": True}).text
    assert "error" in broken.split("\n\n")[1] and "[DONE]" not in broken
