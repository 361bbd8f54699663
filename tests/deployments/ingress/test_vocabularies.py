"""The routes about word lists, over a real connection and the built-in lists."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.contract import VocabularySpec
from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_CHECK_BYTES, MAX_LISTED
from deployments.vocabulary.queries import AskCheck
from tests.deployments.front import LIMITS, Front, assert_error
from wordbound.cli import app

LISTS = "/v1/vocabularies"
CHECK = "/v1/vocabularies/check"
WORDS = "/v1/vocabularies/en/words"
EN = {"lang": "en", "n_words": 1000}
TEXT = "\ufeff😀 The cat’s <b>xyzzy</b>;\r\nl'été, teh elephant: 42 \u05e9\u05dc\u05d5\u05dd e\u0301"


@pytest.fixture(autouse=True)
def english_is_known(front: Front) -> None:
    """Reads the longest list of these tests before a client waits for it."""
    front.backend.lists._answer(AskCheck(VocabularySpec(lang="en", n_words=1000), "teh", "json"), "")


@pytest.mark.parametrize(
    ("form", "vocab", "options"),
    [
        ("json", EN, ["--lang", "en", "--words", "1000"]),
        ("csv", {"lang": "lv", "level": "top-500"}, ["--lang", "lv", "--level", "top-500"]),
        (
            "html",
            {"lang": "da", "n_words": 900, "source": "wordfreq"},
            ["--lang", "da", "--words", "900", "--source", "wordfreq"],
        ),
    ],
)
def test_a_report_has_the_bytes_of_the_command_line(
    front: Front,
    form: str,
    vocab: dict[str, Any],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    text = TEXT.removeprefix("\ufeff")
    answer = front.post(CHECK, {"text": text, "vocab": vocab, "format": form})
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    with pytest.raises(SystemExit) as exit_info:
        app(["check", "-", *options, f"--{form}"])
    assert exit_info.value.code == 1
    assert answer.content == capsysbinary.readouterr().out
    assert answer.headers["content-type"].startswith({"json": "application/json"}.get(form, f"text/{form}"))


def test_a_page_may_run_nothing(front: Front) -> None:
    headers = front.post(CHECK, {"text": "<script>", "vocab": EN, "format": "html"}).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["content-type"] == "text/html; charset=utf-8"


def test_the_flat_fields_and_all_that_is_about_a_list_count(front: Front) -> None:
    result = front.post(CHECK, {"text": "The cat 42 zebra", "vocab_lang": "en", "vocab_n_words": 9}).json()
    assert [word["word"] for word in result["not_allowed"]] == ["cat", "zebra"]
    vocab = EN | {"extra_words": ["cat"], "exclude_words": ["the"], "numbers": False}
    result = front.post(CHECK, {"text": "The cat 42 zebra", "vocab": vocab, "new_words": ["zebra"]}).json()
    assert [(word["word"], word["reason"]) for word in result["not_allowed"]] == [
        ("The", "excluded"),
        ("42", "unknown"),
    ]
    assert result["new_words"] == [{"word": "zebra", "count": 1}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"vocab": None}, "vocab"),
        ({"vocab": {"n_words": 5}}, "vocab.lang"),
        ({"vocab": EN | {"search": 2}}, "vocab.search"),
        ({"vocab": EN | {"must_use": [{"word": "a"}]}}, "vocab.must_use"),
        ({"vocab": EN | {"extra_words": ["a"], "exclude_words": ["a"]}}, "vocab.extra_words"),
        ({"vocab": {"level": "top-500"}}, "vocab.level"),
        ({"vocab": {"lang": "en", "level": "A9"}}, "vocab.level"),
        ({"vocab": {"lang": "es", "level": "ngsl-1"}}, "vocab.level"),
        ({"vocab": EN | {"level": "top-500"}}, "vocab.n_words"),
        ({"vocab": {"words": ["a"], "level": "A1"}}, "vocab.words"),
        ({"vocab": {"lang": "en", "unit": "lemma", "level": "A1"}}, "vocab.unit"),
        ({"text": None}, "text"),
        ({"text": 1}, "text"),
        ({"format": "pdf"}, "format"),
        ({"new_words": "zebra"}, "new_words"),
        ({"new_words": ["a\u200bb"]}, "new_words[0]"),
        ({"new_words": ["a"] * (MAX_CHANGED_WORDS + 1)}, "new_words"),
        ({"model": "m"}, "model"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(front: Front, fields: dict[str, Any], param: str) -> None:
    is_list = param == "vocab.level"
    code = "invalid_vocabulary" if is_list else None
    assert_error(front.post(CHECK, {"text": "a", "vocab": EN, **fields}), 400, param=param, code=code)


def test_a_level_is_a_list(front: Front) -> None:
    result = front.post(CHECK, {"text": "the horse", "vocab": {"lang": "en", "level": "top-500"}}).json()
    assert [word["word"] for word in result["not_allowed"]] == ["horse"]
    levels = [one for one in front.get(LISTS).json()["data"] if one["kind"] == "level"]
    top_500 = {"id": "top-500", "object": "vocabulary", "kind": "level", "source": "list", "languages": []}
    assert {**top_500, "readings": False} in levels


def test_a_level_without_its_file_says_which_to_bring(front: Front) -> None:
    answer = front.post(CHECK, {"text": "a", "vocab": {"level": "ngsl-1"}})
    error = assert_error(answer, 400, param="vocab.level", code="invalid_vocabulary")
    assert "en_ngsl.csv" in error["message"] and "WORDLIST_DIR" in error["message"]


def test_an_unknown_list_is_told_by_the_field_that_names_it(front: Front) -> None:
    answer = front.post(CHECK, {"text": "a", "vocab": {"lang": "xx"}})
    error = assert_error(answer, 400, param="vocab.lang", code="invalid_vocabulary")
    assert "Known languages" in error["message"]


def test_a_text_may_be_longer_than_other_bodies(front: Front) -> None:
    assert LIMITS.max_body_bytes < MAX_CHECK_BYTES
    text = "the " + " " * LIMITS.max_body_bytes
    assert front.post(CHECK, {"text": text, "vocab": {"words": ["the"]}}).json()["num_words"] == 1
    assert_error(front.post(CHECK, {"text": " " * MAX_CHECK_BYTES, "vocab": {"words": ["the"]}}), 413)


def test_half_a_character_is_refused(front: Front) -> None:
    body = b'{"text": "\\ud800", "vocab": {"lang": "en"}}'
    with front.client() as client:
        assert client.post(CHECK, content=body, headers={"Content-Type": "application/json"}).status_code == 400


def test_lists_and_their_words_are_told(front: Front) -> None:
    names = [one["id"] for one in front.get(LISTS).json()["data"] if one["kind"] != "level"]
    assert names == sorted(names) and {"en", "es"} <= set(names)
    result = front.get(WORDS, params={"limit": 2}).json()
    assert result["data"] == [{"rank": 1, "word": "the", "lemma": "the"}, {"rank": 2, "word": "to", "lemma": "to"}]
    result = front.get(WORDS, params={"q": "eleph", "offset": 1, "limit": 1}).json()
    assert result["data"][0]["word"].startswith("eleph")
    assert len(front.get(WORDS).json()["data"]) == 100


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        (f"limit={MAX_LISTED + 1}", "limit"),
        ("limit=-1", "limit"),
        ("offset=x", "offset"),
        ("offset=1&offset=2", "offset"),
        ("q=" + "a" * 101, "q"),
        ("page=1", "page"),
    ],
)
def test_wrong_parameters_are_refused_by_name(front: Front, query: str, param: str) -> None:
    assert_error(front.get(f"{WORDS}?{query}"), 400, param=param)


@pytest.mark.parametrize("name", ["xx", "km", "En"])
def test_the_words_of_an_unknown_list_are_not_found(front: Front, name: str) -> None:
    assert_error(front.get(f"/v1/vocabularies/{name}/words"), 404, param="list_id")


@pytest.mark.parametrize(
    "path", ["/v1/vocabularies/../en/words", "/v1/vocabularies/en.txt/words", "/v1/vocabularies/en"]
)
def test_other_paths_are_not_there(front: Front, path: str) -> None:
    with front.client() as client:
        assert client.request("GET", client.base_url.join("/").copy_with(raw_path=path.encode())).status_code == 404


def test_the_routes_need_a_key_and_their_method(front: Front) -> None:
    with front.client(key=None) as client:
        for path in (LISTS, WORDS):
            assert_error(client.get(path), 401, code="invalid_api_key")
        assert_error(client.post(CHECK, json={"text": "a", "vocab": EN}), 401, code="invalid_api_key")
    assert_error(front.get(CHECK), 405)
    assert_error(front.post(WORDS, {}), 405)


def test_where_too_many_wait_the_caller_is_told_when_to_come_back(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_nothing(*_: object) -> None:
        raise SemaphoreFullError(7)

    monkeypatch.setattr(FairSemaphore, "_wait_for", take_nothing)
    answer = front.get(LISTS)
    assert_error(answer, 503, code="overloaded")
    assert answer.headers["retry-after"] == "7"


def test_an_answer_is_one_line_of_json(front: Front) -> None:
    body = front.post(CHECK, {"text": TEXT, "vocab": EN}).text
    assert body.endswith("\n") and json.loads(body)["object"] == "vocabulary.report"


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


def test_the_strings_of_json_are_checked_by_its_schema(front: Front) -> None:
    report = front.post(CHECK, {"text": TAGGED, "schema": CARD, "vocab": EN}).json()
    assert [(one["word"], one["pointer"]) for one in report["not_allowed"]] == [
        ("plugh", "/front"),
        ("cat", "/front"),
        ("teh", "/tags/1"),
        ("cat", "/tags/1"),
    ]
    assert report["num_words"] == 6
    assert "pointer" not in front.post(CHECK, {"text": "plugh", "vocab": EN}).json()["not_allowed"][0]


def test_the_command_line_names_them_too(front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(CARD))
    (tmp_path / "card.json").write_text(TAGGED)
    checked = [
        str(tmp_path / "card.json"),
        "--lang",
        "en",
        "--words",
        "1000",
        "--schema",
        str(tmp_path / "schema.json"),
    ]
    with pytest.raises(SystemExit) as exit_info:
        app(["check", *checked])
    assert exit_info.value.code == 1
    assert "teh  (rank 28,836; /tags/1)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        app(["check", *checked, "--json"])
    answer = front.post(CHECK, {"text": TAGGED, "schema": CARD, "vocab": EN}).json()
    assert {**answer, "file": checked[0]} == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("[", "{}", "schema.json: it is no JSON"),
        ('{"type": "string", "format": "date"}', '"a"', "schema.json: #/format the strings are written"),
        ('{"type": "string"}', "{}", "card.json: the text does not fit the schema"),
        ('{"type": "string"}', "a", "card.json: the text is no JSON"),
    ],
)
def test_what_is_no_json_of_the_schema_is_said(
    schema: str, text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schema.json").write_text(schema)
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(SystemExit) as exit_info:
        app(["check", str(tmp_path / "card.json"), "--lang", "en", "--schema", str(tmp_path / "schema.json")])
    assert exit_info.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "param", "part"),
    [
        ({"text": "{}"}, "text", "the text does not fit the schema"),
        ({"text": "a"}, "text", "the text is no JSON"),
        ({"text": TAGGED, "format": "csv"}, "schema", "needs 'format' to be 'json'"),
        ({"text": "1", "schema": {"type": "integer", "multipleOf": 2}}, "schema", "#/multipleOf"),
        ({"text": "1", "schema": {"$ref": "#/a"}}, "schema", "JSON schema"),
    ],
)
def test_json_that_cannot_be_checked_is_refused(front: Front, fields: dict[str, Any], param: str, part: str) -> None:
    answer = front.post(CHECK, {"schema": CARD, "vocab": EN, **fields})
    assert_error(answer, 400, param=param)
    assert part in answer.json()["error"]["message"]


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


def test_readings_that_cannot_be_given_are_refused(front: Front) -> None:
    asked = {"text": "he", "vocab": {"lang": "en", "n_words": 1000}, "readings": True}
    assert_error(front.post(CHECK, asked), 400, param="readings")
    error = assert_error(front.post(CHECK, asked | {"words": True}), 400, param="readings")
    assert "zh, zh-Hant, ja" in error["message"]
