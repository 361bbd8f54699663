"""The routes about word lists, over a real connection and the built-in lists; and those of the word tools, over a
stand-in for the replica."""

import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from deployments.contract import VocabularySpec
from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError
from deployments.protocol.word_tools import EXERCISE_KINDS, AskCheck
from deployments.settings.limits import Limits
from deployments.vocabulary.queries import ListQueries
from tests.deployments.front import KEY, MODEL, Front, assert_error, client_of, wait_until
from tests.deployments.ingress.test_refusals import (
    CHECK,
    EN,
    EXERCISES,
    GOOD,
    LISTS,
    NEXT,
    REWRITE,
    SWAP,
    TOOLS,
    WORDS,
)
from tests.deployments.stand_in import StandIn
from wordbound.cli import app

TEXT = "\ufeff😀 The cat’s <b>xyzzy</b>; Zoë don´t.\r\nl'été, teh elephant: 42 \u05e9\u05dc\u05d5\u05dd e\u0301"


@pytest.fixture(autouse=True)
def english_is_known(front: Front) -> None:
    """Reads the longest list of these tests before a client waits for it."""
    front.backend.lists._answer(AskCheck(VocabularySpec(lang="en", n_words=1000), "teh", "json"))


def check_at_the_command_line(*options: str) -> int:
    """Run ``wordbound check`` and return its status."""
    with pytest.raises(SystemExit) as exit_info:
        app(["check", *options])
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


@pytest.mark.parametrize(
    ("form", "vocab", "options", "fields"),
    [
        ("json", EN, "--lang en --words 1000", {}),
        ("csv", {"lang": "lv", "level": "top-500"}, "--lang lv --level top-500", {}),
        ("json", EN | {"prompt_words": "Elephants"}, "--lang en --words 1000 --prompt-words Elephants", {}),
        ("html", {"lang": "da", "n_words": 900}, "--lang da --words 900", {}),
        ("html", EN, "--lang en --words 1000 --keep-names", {"names": "keep"}),
        (
            "json",
            EN,
            "--lang en --words 1000 --keep-names --inflected --sentences",
            {"names": "keep", "inflected": True, "sentences": True},
        ),
    ],
)
def test_a_report_has_the_bytes_of_the_command_line(
    front: Front,
    form: str,
    vocab: dict[str, Any],
    options: str,
    fields: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    text = TEXT.removeprefix("\ufeff")
    answer = front.post(CHECK, {"text": text, "vocab": vocab, "format": form, **fields})
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    assert check_at_the_command_line("-", *options.split(), f"--{form}") == 1
    assert answer.content == capsysbinary.readouterr().out
    media_type = "application/json" if form == "json" else f"text/{form}; charset=utf-8"
    assert answer.headers["content-type"] == media_type
    # A page may run nothing of what it shows.
    assert ("default-src 'none'" in answer.headers.get("content-security-policy", "")) == (form == "html")
    if form == "json":
        assert answer.text.endswith("\n") and json.loads(answer.text)["object"] == "vocabulary.report"


@pytest.fixture
async def school(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service with lists of its own."""
    (tmp_path / "en_school.txt").write_text("the\ncat\nsat\nconcatenate\nCatherine\n", encoding="utf-8")
    (tmp_path / "en_cefr-j.csv").write_text("word,level,forms\nthe,A1,\nsit,A2,sat\n", encoding="utf-8")
    async with client_of(StandIn(lists=ListQueries(tmp_path, Limits())), key=KEY) as client:
        yield client


async def test_all_lists_are_named_with_where_they_come_from(school: httpx2.AsyncClient) -> None:
    listed = (await school.get(LISTS)).json()["data"]
    names = [one["id"] for one in listed if one["kind"] != "level"]
    assert names == sorted(names)
    by_id = {one["id"]: one for one in listed}
    for name, kind, source, languages in (
        ("en_school", "file", "file", ["en"]),
        ("es", "language", "cleaned", ["es"]),
        ("he", "language", "cleaned", ["he"]),
        ("top-500", "level", "list", []),
        ("A2", "level", "CEFR-J Wordlist of Tono Laboratory, Tokyo University of Foreign Studies", ["en"]),
    ):
        told = {"id": name, "object": "vocabulary", "kind": kind, "source": source, "languages": languages}
        has_both = "en" in languages or "es" in languages
        assert by_id[name] == {**told, "readings": False, "names": has_both, "inflected": has_both}
    flags = {name: (by_id[name]["names"], by_id[name]["inflected"]) for name in ("de", "is", "zh")}
    assert flags == {"de": (False, True), "is": (True, False), "zh": (False, False)}


async def test_words_are_told_a_page_at_a_time_and_looked_for_by_their_beginning_first(
    school: httpx2.AsyncClient,
) -> None:
    async def words(**query: Any) -> Any:
        return (await school.get(f"{LISTS}/en_school/words", params=query)).json()

    first, last, found = await words(limit=2), await words(offset=3, limit=2), await words(q="CAT")
    assert first["data"] == [{"rank": 1, "word": "the", "lemma": "the"}, {"rank": 2, "word": "cat", "lemma": "cat"}]
    assert (first["id"], first["total"], first["has_more"]) == ("en_school", 5, True)
    assert [(word["rank"], word["word"]) for word in last["data"]] == [(4, "concatenate"), (5, "Catherine")]
    assert last["has_more"] is False
    assert (await words(offset=9))["data"] == []
    ranked = [(word["rank"], word["word"]) for word in found["data"]]
    assert (ranked, found["total"]) == ([(2, "cat"), (5, "Catherine"), (4, "concatenate")], 3)
    assert (await words(q="xyz"))["total"] == 0
    assert len((await school.get(WORDS)).json()["data"]) == 100


async def test_lists_are_asked_for_by_language_tags(school: httpx2.AsyncClient) -> None:
    words = {tag: (await school.get(f"{LISTS}/{tag}/words?limit=3")).json() for tag in ("no", "nb", "NB-no", "zh-TW")}
    assert words["no"] == words["nb"] == words["NB-no"]
    assert (words["no"]["id"], words["zh-TW"]["id"]) == ("nb", "zh-Hant")
    for tag, text, status in (("sr-Latn", "kuća", 200), ("HR", "kuća", 200), ("sr-Cyrl", "кућа", 400)):
        answer = await school.post(CHECK, json={"text": text, "vocab": {"lang": tag}})
        assert answer.status_code == status
        assert status != 200 or not answer.json()["not_allowed"]
    level = await school.post(CHECK, json={"text": "sat", "vocab": {"lang": "EN-gb", "level": "A2"}})
    assert (level.status_code, level.json()["not_allowed"]) == (200, [])
    for tag, says in (("en_US", "write 'en-US', with hyphens"), ("en-school", "bring en-school.txt")):
        refused = await school.post(CHECK, json={"text": "a", "vocab": {"lang": tag}})
        assert_error(refused, 400, code="invalid_vocabulary", param="vocab.lang")
        assert says in refused.json()["error"]["message"]


async def test_every_vocabulary_of_a_request_can_be_checked_against(school: httpx2.AsyncClient, tmp_path: Path) -> None:
    async def missing(vocab: dict[str, Any] | None, text: str = "The xyzzy sat", **fields: Any) -> list[str]:
        body = {"text": text, **({} if vocab is None else {"vocab": vocab}), **fields}
        return [word["word"] for word in (await school.post(CHECK, json=body)).json()["not_allowed"]]

    for vocab, words in (
        (EN, ["xyzzy", "sat"]),
        ({"lang": "es", "n_words": 500, "unit": "lemma"}, ["The", "xyzzy", "sat"]),
        ({"words": ["xyzzy"]}, ["The", "sat"]),
        ({"lang": "en", "words": ["the"], "extra_words": ["Xyzzy", "xyzzy"]}, ["sat"]),
        ({"lang": "en_school", "exclude_words": ["the"]}, ["The", "xyzzy"]),
        ({"lang": "en", "level": "A1"}, ["xyzzy", "sat"]),
        ({"lang": "en", "level": "A2"}, ["xyzzy"]),
        ({"lang": "en_school", "n_words": 2}, ["xyzzy", "sat"]),
    ):
        assert [await missing(vocab), await missing(vocab)] == [words] * 2
    assert await missing(None, vocab_lang="en", vocab_n_words=9) == ["xyzzy", "sat"]
    asked = {"text": "The zebra sat", "vocab": {"lang": "en_school"}, "new_words": ["zebra"]}
    report = (await school.post(CHECK, json=asked)).json()
    assert (report["num_new"], report["has_exactly_the_new_words"]) == (1, True)
    # A file may be replaced.
    (tmp_path / "en_school.txt").write_text("sat\n", encoding="utf-8")
    assert await missing({"lang": "en_school", "n_words": 2}) == ["The", "xyzzy"]
    changed = EN | {"extra_words": ["cat"], "exclude_words": ["the"], "numbers": False}
    asked = {"text": "The cat 42 zebra", "vocab": changed, "new_words": ["zebra"]}
    report = (await school.post(CHECK, json=asked)).json()
    not_allowed = [(word["word"], word["reason"]) for word in report["not_allowed"]]
    assert not_allowed == [("The", "excluded"), ("42", "unknown")]
    assert report["new_words"] == [{"word": "zebra", "count": 1}]


async def test_a_prompts_words_count_in_a_check_and_are_named(school: httpx2.AsyncClient) -> None:
    vocab: dict[str, Any] = {"lang": "en_school", "prompt_words": "Write a short story about the map and a wolf."}
    report = (await school.post(CHECK, json={"text": "Maps and a wolf", "vocab": vocab})).json()
    assert [(word["word"], word["reason"]) for word in report["allowed"]] == [("Maps", "added"), ("wolf", "added")]
    named = {word.pop("word"): word for word in report["prompt_words"]}
    assert named["map"] == {"rank": 1757, "forms": ["maps", "mapped"]}
    assert list(named) == ["map", "wolf"]
    vocab["prompt_words"] = False
    assert "prompt_words" not in (await school.post(CHECK, json={"text": "the", "vocab": vocab})).json()


async def test_a_list_that_cannot_be_read_is_an_error(school: httpx2.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_bytes(b"\xff")
    broken = await school.get(f"{LISTS}/broken/words")
    assert_error(broken, 400, param="vocab_lang", code="invalid_vocabulary")
    spaceless = await school.post(CHECK, json={"text": "a", "vocab": {"lang": "km"}})
    assert_error(spaceless, 400, param="vocab.lang", code="invalid_vocabulary")


def test_where_too_many_wait_the_caller_is_told_when_to_come_back(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_nothing(*_: object) -> None:
        raise SemaphoreFullError(7)

    monkeypatch.setattr(FairSemaphore, "_wait_for", take_nothing)
    answer = front.get(LISTS)
    assert_error(answer, 503, code="overloaded")
    assert answer.headers["retry-after"] == "7"


CARD = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["xyzzy"]},
        "front": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["kind", "front"],
}
TAGGED = '{"kind": "xyzzy", "front": "The plugh\\ncat", "tags": ["house", "teh \\"cat\\""]}'


def test_the_strings_of_json_are_checked_by_its_schema_here_and_at_the_command_line(
    front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = front.post(CHECK, {"text": TAGGED, "schema": CARD, "vocab": EN}).json()
    assert [(one["word"], one["pointer"]) for one in report["not_allowed"]] == [
        ("plugh", "/front"), ("cat", "/front"), ("teh", "/tags/1"), ("cat", "/tags/1"),
    ]  # fmt: skip
    assert report["num_words"] == 6
    assert "pointer" not in front.post(CHECK, {"text": "plugh", "vocab": EN}).json()["not_allowed"][0]
    schema, card = tmp_path / "schema.json", tmp_path / "card.json"
    schema.write_text(json.dumps(CARD))
    card.write_text(TAGGED)
    options = [str(card), "--lang", "en", "--words", "1000", "--schema", str(schema)]
    assert check_at_the_command_line(*options) == 1
    assert "teh  (rank 28,906; /tags/1)" in capsys.readouterr().out
    check_at_the_command_line(*options, "--json")
    assert {**report, "file": str(card)} == json.loads(capsys.readouterr().out)
    for schema_text, text, reason in (
        ("[", "{}", "schema.json: it is no JSON"),
        ('{"type": "string", "format": "date"}', '"a"', "schema.json: #/format the strings are written"),
        ('{"type": "string"}', "{}", "card.json: the text does not fit the schema"),
        ('{"type": "string"}', "a", "card.json: the text is no JSON"),
    ):
        schema.write_text(schema_text)
        card.write_text(text)
        assert check_at_the_command_line(str(card), "--lang", "en", "--schema", str(schema)) == 2
        assert reason in capsys.readouterr().err


def test_words_have_their_readings_where_they_are_asked_for(front: Front) -> None:
    pytest.importorskip("pypinyin")
    asked = {"text": "他长大了。", "vocab": {"lang": "zh", "n_words": 1000}, "words": True}
    words = front.post(CHECK, asked | {"readings": True}).json()["words"]
    assert [word["reading"] for word in words] == ["tā", "zhǎngdà", "le"]
    assert all("reading" not in word for word in front.post(CHECK, asked).json()["words"])
    page = front.post(CHECK, asked | {"words": False, "format": "html", "readings": True}).text
    assert "<ruby>长大<rt>zhǎngdà</rt></ruby>" in page
    readings = {one["id"]: one["readings"] for one in front.get(LISTS).json()["data"]}
    assert (readings["zh"], readings["zh-Hant"], readings["th"], readings["en"]) == (True, True, False, False)


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
