"""What each route refuses over HTTP: with which status, by the name of which field, and before anything is asked of
the graph. What else the readers of chats, completions, rows and tokens refuse is tested with them."""

from typing import Any, get_args

import httpx2

from deployments.contract import Tool
from deployments.protocol.documents import MAX_PARAGRAPHS
from deployments.protocol.word_tools import MAX_ITEMS
from deployments.settings.keys import Key
from deployments.settings.limits import (
    MAX_CHANGED_WORDS,
    MAX_CHECK_BYTES,
    MAX_DOCUMENT_CHARS,
    MAX_LISTED,
    MAX_NEXT_WORDS,
    MAX_PROMPT_CHARS,
    MAX_TOOL_CHARS,
)
from tests.deployments.front import (
    CHAT,
    COMPLETIONS,
    KEY,
    LIMITS,
    MODEL,
    Front,
    Refusal,
    assert_error,
    chat_body,
    client_of,
    completion_body,
    refusal_of,
)
from tests.deployments.stand_in import FEWEST_TOKENS, StandIn

LOGPROBS, SCORES, TOKENS = "/v1/logprobs", "/v1/token_logprobs", "/v1/tokens"
LISTS, CHECK, WORDS = "/v1/vocabularies", "/v1/vocabularies/check", "/v1/vocabularies/en/words"
NEXT, SWAP, REWRITE, EXERCISES = (f"/v1/vocabularies/{tool}" for tool in get_args(Tool))
DOCUMENTS, WORKSHEET = "/v1/documents", "/v1/documents/worksheet"
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"

EN = {"lang": "en", "n_words": 1000}
TEXT = {"text": "The cat sat on the mat.", "vocab": EN}
ORDER = {"kind": "order", "items": [{"sentence": "First."}, {"sentence": "Last."}], "shown": [1, 0]}
DICTATION = {"kind": "dictation", "items": [{"sentence": "The dog ran.", "num_words": 3}]}
QUESTION = {"question": "Who ran?", "options": ["a", "b"], "answer": 0}
CARD = {"type": "object", "properties": {"front": {"type": "string"}}, "required": ["front"]}

GOOD: dict[str, dict[str, Any]] = {
    CHAT: chat_body(),
    COMPLETIONS: completion_body(),
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [1]},
    LOGPROBS: {"prompt": "a"},
    SCORES: {"prompt": "a", "token_ids": [1]},
    CHECK: TEXT,
    NEXT: TEXT,
    SWAP: {**TEXT, "start": 4, "end": 7},
    REWRITE: TEXT,
    EXERCISES: TEXT,
    DOCUMENTS: {"text": "a"},
    WORKSHEET: {"format": "gift", "exercises": [ORDER]},
    LOAD: {"lora_name": "poet", "lora_path": "/nowhere"},
    UNLOAD: {"lora_name": "poet"},
}
"""A body that each route takes."""

TOOLS = [NEXT, SWAP, REWRITE, EXERCISES]
OF_REPLICAS = [CHAT, COMPLETIONS, "/tokenize", LOGPROBS, SCORES, *TOOLS]

UNAUTHORIZED: Refusal = (401, None, "invalid_api_key")
BUSY: Refusal = (503, None, "overloaded")
BROKEN: Refusal = (500, None, "internal_error")


def client(backend: StandIn | None = None, key: str | None = KEY) -> httpx2.AsyncClient:
    return client_of(backend, key=key, keys={"default": Key(operator=True)})


def wishing(path: str, wish: str) -> dict[str, Any]:
    """The body of a request whose answer goes as ``wish`` says."""
    good = GOOD[path]
    if path == CHAT:
        return chat_body(wish)
    place = {"start": 0, "end": 6} if path == SWAP else {}
    return {**good, ("prompt" if "prompt" in good else "text"): wish, **place}


async def test_every_route_needs_a_key_its_method_json_and_fields_that_it_knows() -> None:
    backend, told, expected = StandIn(), dict[str, list[Refusal]](), dict[str, list[Refusal]]()
    json_type = {"Content-Type": "application/json"}
    async with client(backend) as keyed, client(backend, key=None) as unkeyed:
        for path, good in GOOD.items():
            told[path] = [
                refusal_of(await unkeyed.post(path, json=good)),
                refusal_of(await unkeyed.get(path)),
                refusal_of(await keyed.get(path)),
                refusal_of(await keyed.post(path, content=b"a")),
                refusal_of(await keyed.post(path, content=b"[]", headers=json_type)),
                refusal_of(await keyed.post(path, json={**good, "colour": "red"})),
                refusal_of(await keyed.post(path, content=b" " * (MAX_CHECK_BYTES + 1), headers=json_type)),
            ]
            refused: list[Refusal] = [(405, None, None), (415, None, None), (400, None, None), (400, "colour", None)]
            expected[path] = [UNAUTHORIZED, UNAUTHORIZED, *refused, (413, None, None)]
        for path in (LISTS, WORDS, TOKENS):
            told[path] = [refusal_of(await unkeyed.get(path)), refusal_of(await keyed.post(path, json={}))]
            expected[path] = [UNAUTHORIZED, (405, None, None)]
    assert told == expected
    assert not backend.calls


async def test_what_goes_wrong_behind_each_route_has_its_status_and_no_secret() -> None:
    told, expected = dict[str, list[Refusal]](), dict[str, list[Refusal]]()
    async with client() as keyed:
        for path in OF_REPLICAS:
            answers = [
                await keyed.post(path, json={**GOOD[path], "model": "other"}),
                await keyed.post(path, json=wishing(path, "a" * 2**20)),
                *[
                    await keyed.post(path, json=wishing(path, f"please {wish}"))
                    for wish in ("refuse", "fail", "be busy")
                ],
            ]
            assert answers[-1].headers["retry-after"] and "secret" not in answers[-2].text
            told[path] = [refusal_of(answer) for answer in answers]
            field = None if path in (CHAT, COMPLETIONS, "/tokenize") else "prompt"
            of_engine: Refusal = (400, field, "context_length_exceeded")
            expected[path] = [(404, "model", "model_not_found"), (413, None, None), of_engine, BROKEN, BUSY]
    assert told == expected


SAID: list[tuple[str, dict[str, Any], str, str]] = [
    (CHAT, {"vocab": EN, "max_tokens": FEWEST_TOKENS - 1}, "max_tokens", f"at least {FEWEST_TOKENS}"),
    (CHECK, {"readings": True, "words": True}, "readings", "zh, zh-Hant, ja"),
    (CHECK, {"names": "keep", "vocab": {"lang": "de"}}, "names", "'de', which has capitals at all nouns"),
    (CHECK, {"names": "keep", "vocab": {"lang": "ar"}}, "names", "'ar', which has no capitals"),
    (CHECK, {"inflected": True, "vocab": {"lang": "th"}}, "inflected", "'inflected' needs the endings of 'th'"),
    (CHECK, {"sentences": True, "format": "html"}, "sentences", "needs 'format' to be 'json'"),
    (CHECK, {"sentences": True, "schema": CARD, "text": "{}"}, "sentences", "and no 'schema'"),
    (CHECK, {"schema": CARD, "text": "{}"}, "text", "the text does not fit the schema"),
    (CHECK, {"schema": CARD, "text": "a"}, "text", "the text is no JSON"),
    (CHECK, {"schema": CARD, "text": '{"front": "a"}', "format": "csv"}, "schema", "needs 'format' to be 'json'"),
    (CHECK, {"schema": {"type": "integer", "multipleOf": 2}, "text": "1"}, "schema", "#/multipleOf"),
    (CHECK, {"schema": {"$ref": "#/a"}, "text": "1"}, "schema", "JSON schema"),
    (NEXT, {"top": 0}, "top", f"from 1 to {MAX_NEXT_WORDS}"),
    *[(SWAP, {"text": text, "start": start, "end": end}, param, part) for text, start, end, param, part in (
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
    )],
    (DOCUMENTS, {"text": "page\fbreak\u0007"}, "text",
     "'text' must be without U+0007 (at 10), which a document cannot hold: leave it out."),
    (WORKSHEET, {"exercises": [{"kind": "questions", "items": [QUESTION | {"answer": 2}]}]}, "exercises[0].items[0]",
     "one of its 2 options"),
]  # fmt: skip
"""What is refused, by the name of which field, and a part of what is said of it."""

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"n": 10**40}, "n"),
    (CHAT, {"messages": []}, "messages"),
    (CHAT, {"vocab": {"words": ["\x01" * 9] * 10_000}}, "vocab.words[0]"),
    (CHAT, {"vocab": {"lang": "en", "search": {f"member_{index}": "x" for index in range(10_000)}}},
     "vocab.search.member_0"),
    (CHAT, {"vocab": {"lang": "tight"}}, "max_tokens"),
    (COMPLETIONS, {"prompt": ""}, "prompt"),
    (COMPLETIONS, {"echo": True, "vocab": EN}, "echo"),
    (COMPLETIONS, {"vocab": EN, "max_tokens": FEWEST_TOKENS - 1}, "max_tokens"),
    ("/detokenize", {"tokens": [1, "a"]}, "tokens[1]"),
    (LOGPROBS, {"prompt": [[]]}, "prompt"),
    (SCORES, {"token_ids": [1] * (LIMITS.max_new_tokens + 1)}, "token_ids"),
    (CHECK, {"vocab": None}, "vocab"),
    (CHECK, {"vocab": {"n_words": 5}}, "vocab.lang"),
    (CHECK, {"vocab": EN | {"search": 2}}, "vocab.search"),
    (CHECK, {"vocab": EN | {"must_use": [{"word": "a"}]}}, "vocab.must_use"),
    (CHECK, {"vocab": EN | {"level": "top-500"}}, "vocab.n_words"),
    (CHECK, {"vocab": {"words": ["a"], "level": "A1"}}, "vocab.words"),
    (CHECK, {"vocab": {"lang": "en", "unit": "lemma", "level": "A1"}}, "vocab.unit"),
    (CHECK, {"vocab": EN | {"extra_words": ["a"], "exclude_words": ["a"]}}, "vocab.extra_words"),
    (CHECK, {"vocab": EN | {"prompt_words": True}}, "vocab.prompt_words"),
    (CHECK, {"vocab": EN | {"prompt_words": "a" * (MAX_PROMPT_CHARS + 1)}}, "vocab.prompt_words"),
    (CHECK, {"vocab": {"words": ["a"], "prompt_words": "a map"}}, "vocab.prompt_words"),
    (CHECK, {"text": None}, "text"),
    (CHECK, {"text": 1}, "text"),
    (CHECK, {"format": "pdf"}, "format"),
    (CHECK, {"names": "drop"}, "names"),
    (CHECK, {"names": True}, "names"),
    (CHECK, {"inflected": "yes"}, "inflected"),
    (CHECK, {"new_words": "zebra"}, "new_words"),
    (CHECK, {"new_words": ["a\u200bb"]}, "new_words[0]"),
    (CHECK, {"new_words": ["a"] * (MAX_CHANGED_WORDS + 1)}, "new_words"),
    (CHECK, {"model": "m"}, "model"),
    (CHECK, {"readings": True}, "readings"),
    *[(path, fields, param) for path in TOOLS for fields, param in (
        ({"vocab": None}, "vocab"),
        ({"vocab": {"n_words": 5}}, "vocab.lang"),
        ({"vocab": EN | {"search": 2}}, "vocab.search"),
        ({"vocab": EN | {"hint": True}}, "vocab.hint"),
        ({"vocab": EN | {"prompt_words": True}}, "vocab.prompt_words"),
        ({"vocab": EN | {"prompt_words": "a map"}}, "vocab.prompt_words"),
        ({"vocab": EN | {"min_sentences": 2}}, "vocab.min_sentences"),
        ({"vocab_lang": "en"}, "vocab_lang"),
        ({"text": None}, "text"),
        ({"text": 1}, "text"),
        ({"text": "a" * (MAX_TOOL_CHARS + 1)}, "text"),
        ({"messages": []}, "messages"),
    )],
    *[(NEXT, {"top": top}, "top") for top in (-1, MAX_NEXT_WORDS + 1, "5", 1.5)],
    (REWRITE, {"candidates": 9}, "candidates"),
    (REWRITE, {"candidates": -1}, "candidates"),
    (REWRITE, {"temperature": 3}, "temperature"),
    (REWRITE, {"seed": "a"}, "seed"),
    (REWRITE, {"stream": 1}, "stream"),
    (REWRITE, {"text": ""}, "text"),
    (EXERCISES, {"kinds": []}, "kinds"),
    (EXERCISES, {"kinds": ["crossword"]}, "kinds[0]"),
    (EXERCISES, {"num_items": 0}, "num_items"),
    (EXERCISES, {"num_items": MAX_ITEMS + 1}, "num_items"),
    (DOCUMENTS, {"text": None}, "text"),
    (DOCUMENTS, {"text": " \n\u2028"}, "text"),
    (DOCUMENTS, {"text": "a\uffffb"}, "text"),
    (DOCUMENTS, {"text": "x" * (MAX_DOCUMENT_CHARS + 1)}, "text"),
    (DOCUMENTS, {"text": "x\n" * (MAX_PARAGRAPHS + 1)}, "text"),
    (DOCUMENTS, {"title": "a\u001b"}, "title"),
    (DOCUMENTS, {"title": "x" * 501}, "title"),
    (DOCUMENTS, {"glossary": [{"word": "a"}, {"note": "b"}]}, "glossary[1].word"),
    (DOCUMENTS, {"glossary": [{"word": "\ufffe"}]}, "glossary[0].word"),
    (DOCUMENTS, {"glossary": [{"word": "a"}] * (MAX_CHANGED_WORDS + 1)}, "glossary"),
    (DOCUMENTS, {"font_size": 7}, "font_size"),
    (DOCUMENTS, {"font_size": 49}, "font_size"),
    (DOCUMENTS, {"lang": "klingon!"}, "lang"),
    (DOCUMENTS, {"new_words": ["a\u200bb"]}, "new_words[0]"),
    (WORKSHEET, {"format": "pdf"}, "format"),
    (WORKSHEET, {"exercises": []}, "exercises"),
    (WORKSHEET, {"exercises": [ORDER | {"kind": "crossword"}]}, "exercises[0]"),
    (WORKSHEET, {"exercises": [DICTATION, ORDER | {"items": []}]}, "exercises[1].items"),
    (WORKSHEET, {"exercises": [ORDER | {"shown": [0]}]}, "exercises[0]"),
    (WORKSHEET, {"exercises": [ORDER | {"shown": [0, 0]}]}, "exercises[0]"),
    (WORKSHEET, {"exercises": [DICTATION | {"shown": [0]}]}, "exercises[0].shown"),
    (LOAD, {"is_3d_lora_weight": False}, "is_3d_lora_weight"),
    (LOAD, {"lora_path": None}, "lora_path"),
    (LOAD, {"lora_path": ""}, "lora_path"),
    (LOAD, {"lora_name": 1}, "lora_name"),
    (LOAD, {"load_inplace": "yes"}, "load_inplace"),
    (UNLOAD, {"lora_int_id": 1}, "lora_int_id"),
    (UNLOAD, {"lora_name": None}, "lora_name"),
]  # fmt: skip


async def test_what_is_wrong_is_refused_by_its_name_with_what_to_change_and_goes_no_further() -> None:
    backend, wrong = StandIn(), list[tuple[str, str, str]]()
    async with client(backend) as keyed:
        for path, fields, param, part in [*SAID, *((*one, "") for one in REFUSED)]:
            answer = await keyed.post(path, json={**GOOD[path], **fields})
            if refusal_of(answer) != (400, param, None) or part not in answer.json()["error"]["message"]:
                wrong.append((path, str(fields)[:80], answer.text))
    assert not wrong
    assert not backend.calls


async def test_a_list_that_cannot_be_used_is_named_by_the_field_that_names_it() -> None:
    wrong = list[tuple[str, Any, Refusal]]()
    unusable: list[tuple[str, dict[str, Any], str]] = [
        (CHAT, {"vocab_lang": "xx", "vocab_n_words": 10}, "vocab_lang"),
        (CHAT, {"vocab_lang": "xx-remote", "vocab_n_words": 10}, "vocab_lang"),
        (CHAT, {"vocab": {"lang": "xx", "words": ["a"]}}, "vocab.words"),
        (CHAT, {"vocab": {"lang": "twisted"}}, "vocab"),
        (CHECK, {"vocab": {"level": "top-500"}}, "vocab.level"),
        (CHECK, {"vocab": {"lang": "en", "level": "A9"}}, "vocab.level"),
        (CHECK, {"vocab": {"lang": "es", "level": "ngsl-1"}}, "vocab.level"),
        *[(path, {"vocab": {"lang": "xx"}}, "vocab.lang") for path in (CHAT, COMPLETIONS, CHECK, *TOOLS)],
    ]
    async with client() as keyed:
        for path, fields, param in unusable:
            told = refusal_of(await keyed.post(path, json={**GOOD[path], **fields}))
            if told != (400, param, "invalid_vocabulary"):
                wrong.append((path, fields, told))
        langs = ("broken", "busy", "slow", "xx")
        failing = {lang: await keyed.post(CHAT, json=chat_body(vocab={"lang": lang})) for lang in langs}
        level = await keyed.post(CHECK, json={"text": "a", "vocab": {"level": "ngsl-1"}})
        unknown = await keyed.post(CHECK, json={"text": "a", "vocab": {"lang": "xx"}})
    assert not wrong
    assert [refusal_of(failing[lang]) for lang in ("broken", "busy", "slow")] == [BROKEN, BUSY, BUSY]
    assert "secret" not in failing["broken"].text
    for answer, part in (
        (failing["xx"], "Known: en, es."),
        (failing["slow"], "fewer words"),
        (unknown, "Known languages"),
        (level, "en_ngsl.csv"),
        (level, "WORDLIST_DIR"),
    ):
        assert part in answer.json()["error"]["message"]


async def test_wrong_parameters_are_refused_by_name_and_unknown_lists_are_not_found() -> None:
    expected: dict[str, Refusal] = {
        f"{WORDS}?limit=0": (400, "limit", None),
        f"{WORDS}?limit={MAX_LISTED + 1}": (400, "limit", None),
        f"{WORDS}?limit=-1": (400, "limit", None),
        f"{WORDS}?offset=x": (400, "offset", None),
        f"{WORDS}?offset=1&offset=2": (400, "offset", None),
        f"{WORDS}?q={'a' * 101}": (400, "q", None),
        f"{WORDS}?page=1": (400, "page", None),
        **{f"{LISTS}/{name}/words": (404, "list_id", None) for name in ("xx", "km", "En-kids")},
        **{f"/v1/models/{name}": (404, "model", "model_not_found") for name in ("other", MODEL.upper(), f"{MODEL}/")},
        "/v1/models/..%2f..%2fetc%2fpasswd": (404, "model", "model_not_found"),
        f"/v1/models/{'x' * 10_000}": (404, "model", "model_not_found"),
    }
    async with client() as keyed:
        assert {target: refusal_of(await keyed.get(target)) for target in expected} == expected


def test_a_text_to_check_may_be_longer_than_other_bodies(front: Front) -> None:
    assert LIMITS.max_body_bytes < MAX_CHECK_BYTES
    words = {"words": ["the"]}
    text = "the " + " " * LIMITS.max_body_bytes
    assert front.post(CHECK, {"text": text, "vocab": words}).json()["num_words"] == 1
    assert_error(front.post(CHECK, {"text": " " * MAX_CHECK_BYTES, "vocab": words}), 413)
    with front.client() as client:
        half = client.post(
            CHECK, content=b'{"text": "\\ud800", "vocab": {"lang": "en"}}', headers={"Content-Type": "application/json"}
        )
    assert_error(half, 400)
