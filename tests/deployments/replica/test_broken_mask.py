"""No unlisted word leaves a replica whose engine lets one step in fifty through its mask (``ReplicaWorld``).

``e2e`` tests ask the real engine.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import (
    AskedWord,
    AuthorControls,
    Caller,
    ChatBody,
    Decoding,
    LineRequest,
    NewWordsAsked,
    TextRequest,
    TokensRequest,
    Tool,
    WordToolRequest,
)
from deployments.errors import ApiError
from tests.checker import unlisted_words
from tests.deployments.replica.world import MODEL, WORDS, ReplicaWorld, read

MAX_TOKENS = 24
SPECIAL_TOKEN = re.compile(r"<[|\w]+>")
"""Has no text; one that leaks is named among the logprobs of the answer's own tokens."""

NUM_UNMASKED = 4
"""Steps whose mask fails, for each way of asking."""

BODY: ChatBody = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me of a cat."}], "temperature": 1.0}
ALTERNATIVES = {"logprobs": True, "top_logprobs": 5}
PREFILL: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell me."}, {"role": "assistant", "content": 'Zoe said: "A zebra'}],
    "continue_final_message": True,
    "add_generation_prompt": False,
}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one": ({}, {}),
    "several": ({"n": 3}, {}),
    "logprobs": (ALTERNATIVES, {}),
    "score": (ALTERNATIVES, {"score": True}),
    "token ids": ({"return_token_ids": True}, {}),
    "stop string": ({"stop": ["at"]}, {}),
    "stop string in text": ({"stop": ["at"], "include_stop_str_in_output": True, **ALTERNATIVES}, {}),
    "beams": ({}, {"num_beams": 3}),
    "candidates": ({"n": 2}, {"best_of": 3}),
    "sentences": ({}, {"search_width": 2}),
    "rescue": ({}, {"rescue": 0.15}),
    "several rescued": ({"n": 2, **ALTERNATIVES}, {"rescue": 0.15}),
    "rescue with a stop string": ({"stop": ["at"], **ALTERNATIVES}, {"rescue": 0.15, "score": True}),
    "least tokens": ({"min_tokens": MAX_TOKENS, **ALTERNATIVES}, {}),
    "least tokens rescued": ({"min_tokens": 20}, {"rescue": 0.15}),
    "prefill": ({**PREFILL, **ALTERNATIVES}, {}),
    "prefill with a stop string": ({**PREFILL, "stop": ["at"]}, {"score": True}),
    "prefill with beams": (PREFILL, {"num_beams": 3}),
    "prefill with candidates": ({**PREFILL, "min_tokens": 8}, {"best_of": 3}),
    "prefill with sentences": (PREFILL, {"search_width": 2}),
    "prefill rescued": ({**PREFILL, **ALTERNATIVES}, {"rescue": 0.15}),
}
"""Fields of the body, and of the decoding."""

AUTHOR = AuthorControls(
    must_use=(AskedWord("house"), AskedWord("in front of")), max_sentence_words=4, min_sentences=2, max_sentences=3
)
NUM_LISTED = 14
"""Of the words, where the others may come in as new ones."""

NEW = AUTHOR._replace(new_words=NewWordsAsked(len(WORDS), 20), must_use=(AskedWord("dog"),))
AUTHOR_WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "author": (ALTERNATIVES, {"author": AUTHOR}),
    "author with a stop string": ({"stop": ["at"], **ALTERNATIVES}, {"author": AUTHOR, "score": True}),
    "author with beams": ({}, {"author": AUTHOR, "num_beams": 3}),
    "author with candidates": ({"n": 2}, {"author": AUTHOR, "best_of": 3}),
    "author rescued": (ALTERNATIVES, {"author": AUTHOR, "rescue": 0.15}),
    "new words": (ALTERNATIVES, {"author": NEW}),
    "new words with sentences": ({}, {"author": NEW, "search_width": 2}),
    "new words after a prefill": ({**PREFILL, **ALTERNATIVES}, {"author": NEW}),
}
"""The same under an author's controls."""

COMPLETION: ChatBody = {"model": MODEL, "prompt": "There was a cat. ", "temperature": 1.0}
COMPLETION_WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one": ({}, {}),
    "several prompts": ({"prompt": ["It was old. ", "A dog sees it. "], "n": 2}, {}),
    "logprobs": ({"logprobs": 5}, {}),
    "score": ({"logprobs": 5}, {"score": True}),
    "token ids": ({"return_token_ids": True}, {}),
    "stop string": ({"stop": ["at"], "logprobs": 5}, {}),
    "beams": ({}, {"num_beams": 3}),
    "candidates": ({"n": 2}, {"best_of": 3}),
    "sentences": ({}, {"search_width": 2}),
    "rescue": ({"logprobs": 5}, {"rescue": 0.15}),
    "author": ({"prompt": 'Zoe said: "A zebra', "logprobs": 5}, {"author": NEW}),
}
"""The same of completions."""


def chat_of(text: str) -> ChatBody:
    return {**BODY, "messages": [{"role": "user", "content": text}]}


def free(body: dict[str, Any]) -> TextRequest:
    return TextRequest(body, None, Decoding(), Caller("alice", "req-1"))


async def asked(
    world: ReplicaWorld, fields: dict[str, Any], decoding: dict[str, Any], seed: int, *, is_completion: bool = False
) -> list[Any]:
    body = {**(COMPLETION if is_completion else BODY), "max_tokens": MAX_TOKENS, "seed": seed, **fields}
    how = Decoding(no_repeat_ngram_size=0, **decoding)
    vocabulary = world.vocabulary
    if how.author is not None and how.author.new_words is not None:
        vocabulary = vocabulary.model_copy(update={"n_words": NUM_LISTED})
    return await world.items(TextRequest(body, vocabulary, how, Caller("alice", f"req-{seed}")))


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> ReplicaWorld:
    return ReplicaWorld(smollm2_path, tmp_path_factory.mktemp("artefacts"))


@pytest.fixture
def tight(world: ReplicaWorld) -> Iterator[ReplicaWorld]:
    """The same while its mask holds."""
    world.engine.leaks = False
    yield world
    world.engine.leaks = True


def assert_nothing_unlisted(world: ReplicaWorld, sent: list[dict[str, Any]], *, is_cut: bool) -> None:
    """In the texts, the token ids, and whatever else the choices hold."""
    texts: dict[int, str] = {}
    ids: dict[int, list[int]] = {}
    for one in sent:
        for choice in one["choices"]:
            part = choice.get("delta") or choice.get("message") or {"content": choice["text"]}
            index = choice["index"]
            texts[index] = texts.get(index, "") + (part.get("content") or "")
            ids.setdefault(index, []).extend(choice.get("token_ids") or [])
            others = {name: value for name, value in choice.items() if name not in ("finish_reason", "stop_reason")}
            # The tokens of a completion's logprobs are names of members too.
            others["names"] = [
                name for entry in (choice.get("logprobs") or {}).get("top_logprobs") or [] for name in entry
            ]
            for text in strings_in({**others, "delta": None, "message": None, "rest": {**part, "role": None}}):
                for piece in re.findall(r"[^\W\d_]+", SPECIAL_TOKEN.sub("", text)):
                    assert any(piece.lower() in word for word in (*WORDS, "'s")), (piece, choice)
    for index, text in texts.items():
        assert not unlisted_words(text, "en", len(WORDS), WORDS), text
        spelled = world.tokenizer.decode(ids[index], skip_special_tokens=True)
        assert is_cut or text.startswith(spelled), (text, spelled)


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_in(part)


@pytest.mark.fault(63)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("way", [*WAYS, *AUTHOR_WAYS])
async def test_no_unlisted_word_leaves(world: ReplicaWorld, way: str, stream: bool) -> None:
    ways = WAYS | AUTHOR_WAYS
    await assert_no_unlisted_word_leaves(world, *ways[way], stream=stream, is_completion=False)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("way", COMPLETION_WAYS)
async def test_no_unlisted_word_leaves_in_completions(world: ReplicaWorld, way: str, stream: bool) -> None:
    await assert_no_unlisted_word_leaves(world, *COMPLETION_WAYS[way], stream=stream, is_completion=True)


async def assert_no_unlisted_word_leaves(
    world: ReplicaWorld, fields: dict[str, Any], decoding: dict[str, Any], *, stream: bool, is_completion: bool
) -> None:
    enough, outcomes = world.engine.num_unmasked + NUM_UNMASKED, set[str | None]()
    # What may be cut is cut before the first unlisted word, so that all of it is answered.
    expected: set[str | None] = {None}
    is_search = bool(decoding.keys() - {"score", "author", "rescue"})
    if is_search:
        # Searches follow the tokens of each of their texts, but for the last of a beam, which is read as any text is.
        expected.add("engine_error")
    elif "stop" not in fields:
        expected.add("unlisted_text")
    for seed in takewhile(lambda _: world.engine.num_unmasked < enough or outcomes != expected, range(100)):
        items = await asked(world, {**fields, "stream": stream}, decoding, seed, is_completion=is_completion)
        sent, error = read(items)
        assert_nothing_unlisted(world, sent, is_cut="stop" in fields)
        code = None if error is None else error.code
        outcomes.add("engine_error" if is_search and code == "unlisted_text" else code)
    assert world.engine.num_unmasked >= enough
    assert outcomes == expected


@pytest.mark.parametrize("prompt", ["There was a ca", ["A dog. ", "a ca"], ["A dog. ", "A dog"]])
async def test_prompts_that_end_inside_a_word_or_differently_are_refused(world: ReplicaWorld, prompt: Any) -> None:
    sent, error = read(await asked(world, {"prompt": prompt}, {}, 1, is_completion=True))
    assert error is not None
    assert (sent, error.status, error.param) == ([], 400, "prompt")


@pytest.mark.fault(19)
@pytest.mark.parametrize(("num_tokens", "limit"), [(3000, "1024 tokens"), (1100, "1024 tokens")])
async def test_a_prompt_that_is_too_long_is_refused(world: ReplicaWorld, num_tokens: int, limit: str) -> None:
    """The limit is the service's own: the engine reads 2,048."""
    text = "a " * num_tokens
    for body, param in (({**COMPLETION, "prompt": text}, "prompt"), (chat_of(text), "messages")):
        [error] = await world.items(free(body))
        assert isinstance(error, ApiError)
        assert (error.status, error.code, error.param) == (400, "context_length_exceeded", param)
        assert limit in error.message


@pytest.mark.parametrize("fields", [{"temperature": "hot"}, {"top_logprobs": 3}], ids=str)
async def test_a_body_that_the_engine_does_not_take_is_refused(world: ReplicaWorld, fields: dict[str, Any]) -> None:
    [error] = await asked(world, fields, {}, 1)
    assert isinstance(error, ApiError)
    assert (error.status, error.type) == (400, "invalid_request_error")


@pytest.mark.parametrize(("decoding", "are_alike"), [({}, True), ({"num_beams": 4}, False)])
async def test_several_texts_may_be_asked_for_at_temperature_0(
    tight: ReplicaWorld, decoding: dict[str, Any], are_alike: bool
) -> None:
    """vLLM refuses them; samples are one given several times, and beams draw nothing."""
    [answer] = await asked(tight, {"n": 2, "temperature": 0}, decoding, 1)
    assert isinstance(answer, dict), answer
    first, second = (choice["message"]["content"] for choice in answer["choices"])
    assert first and (first == second) is are_alike
    assert answer["id"].endswith("req-1")


async def test_a_completion_without_a_list_is_vllms_own_and_may_begin_with_its_prompt(world: ReplicaWorld) -> None:
    body = {**COMPLETION, "max_tokens": 5, "prompt": "A prompt", "echo": True, "return_token_ids": False}
    [answer] = await world.items(free(body))
    assert isinstance(answer, dict)
    assert answer["choices"][0]["text"].startswith("A prompt")
    assert "vocab" not in answer


async def test_the_tokens_of_a_text_and_of_messages_are_those_that_the_engine_gets(world: ReplicaWorld) -> None:
    async def tokenize(body: dict[str, Any]) -> Any:
        [result] = await world.items(TokensRequest(body, Caller("alice", "req-1")))
        return result

    text = "Ein Wörtchen über 3 Katzen 🐈 <|im_end|>"
    result = await tokenize({"prompt": text, "return_token_strs": True})
    tokens = world.tokenizer.encode(text)
    assert result == {
        "count": len(tokens), "max_model_len": 2048, "tokens": tokens,
        "token_strs": world.tokenizer.convert_ids_to_tokens(tokens),
    }  # fmt: skip
    assert await tokenize({"tokens": tokens}) == {"prompt": text}
    assert "below" in (await tokenize({"tokens": [10**6]})).message
    chat = await tokenize({"messages": [{"role": "user", "content": text}]})
    body = {**BODY, "messages": [{"role": "user", "content": text}], "max_tokens": 1}
    await world.items(free(body))
    assert chat["tokens"] == world.engine.requests[-1][0]
    # Only the template ends a turn.
    assert chat["tokens"].count(world.tokenizer.convert_tokens_to_ids("<|im_end|>")) == 2


@pytest.mark.fault(63)
async def test_no_unlisted_word_leaves_in_lines_of_batches(world: ReplicaWorld) -> None:
    statuses = set[int]()
    for seed, (fields, decoding) in enumerate(list(WAYS.values()) * 2):
        vocab: dict[str, Any] = {"lang": "en", "n_words": len(WORDS), "score": decoding.get("score", False)}
        if "search_width" in decoding:
            vocab["search"] = {"width": decoding["search_width"]}
        if "rescue" in decoding:
            vocab["rescue"] = decoding["rescue"]
        body = {**BODY, "max_tokens": MAX_TOKENS, "seed": seed, "vocab": vocab, **fields}
        body |= {name: width for name, width in decoding.items() if name in ("num_beams", "best_of")}
        answer = await world.replica.answer_line(LineRequest(body, "alice", "line"))
        statuses.add(200 if isinstance(answer, dict) else answer.status)
        if isinstance(answer, dict):
            assert_nothing_unlisted(world, [answer], is_cut="stop" in fields)
    assert statuses == {200, 500}


SOURCE = "The zebra sat with Zoe. A cat saw it! Nobody sleeps under the piano."


def assert_listed(text: str) -> None:
    assert not unlisted_words(text, "en", len(WORDS), WORDS), text


async def tool_items(world: ReplicaWorld, tool: Tool, body: dict[str, Any]) -> list[Any]:
    request = WordToolRequest(tool, body, world.vocabulary, world.spec, Caller("alice", "req-1"))
    return await world.items(request)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_unlisted_word_leaves_where_a_text_is_rewritten(world: ReplicaWorld, stream: bool) -> None:
    enough, outcomes = world.engine.num_unmasked + NUM_UNMASKED, set[str | None]()
    for seed in takewhile(lambda _: world.engine.num_unmasked < enough or len(outcomes) < 2, range(100)):
        body = {
            "model": MODEL, "text": SOURCE, "keep_names": False, "force": True, "candidates": 2, "temperature": 1.0,
            "seed": seed, "stream": stream,
        }  # fmt: skip
        sent, error = read(await tool_items(world, "rewrite", body))
        outcomes.add(None if error is None else error.code)
        assert_listed("".join(one["text"] for one in sent if len(one) == 1))
        for whole in (one for one in sent if len(one) > 1):
            assert_listed(whole["text"])
            # An event's parts, and what each change wrote.
            assert_listed(" ".join(change["to"] for change in whole["changes"]))
    assert world.engine.num_unmasked >= enough
    assert outcomes == {None, "unlisted_text"}


async def test_no_unlisted_word_is_a_next_word_or_another_one(world: ReplicaWorld) -> None:
    for text in ("The", "The cat ", "A dog sees it. The", ""):
        [result] = await tool_items(world, "next", {"text": text, "top": 20})
        assert result["data"]
        for word in result["data"]:
            assert_listed(word["word"])
    for word in ("zebra", "sat", "Zoe", "piano"):
        start = SOURCE.index(word)
        [result] = await tool_items(
            world, "swap", {"text": SOURCE, "start": start, "end": start + len(word), "top": 20}
        )
        assert result["data"]
        for other in result["data"]:
            assert_listed(other["word"])
