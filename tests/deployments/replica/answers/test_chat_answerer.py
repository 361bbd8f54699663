"""The replica around an engine that says what a test wants, true or not."""

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput

from deployments.contract import Caller, Decoding, ResolvedVocabulary, TextRequest
from deployments.replica.answers.chat_answerer import ChatAnswerer
from deployments.replica.deployment import Replica
from deployments.replica.engine.health import check_context
from deployments.replica.engine.loaded_adapters import EngineAdapters, LoadedAdapters
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.prompts.chat_template import Prompts, hint_line
from deployments.replica.prompts.plain_text import PlainText
from deployments.search.request import AnswerCost
from deployments.settings.service import Settings
from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.adapters import Adapter, Card
from vocab.artefacts.artefact import ArtefactFolder
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.automaton.trie_builder import build_words
from vocab.decoding.select import TextScore
from vocab.matching.engine_cache import EngineCache
from vocab.matching.log_mass import UNMASKED_TOP, mark
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS, ListOptions

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}


TOKENS = (b"The", b" cat", b" dog", b".", b"")


class ScriptedReplica:
    """An answerer whose engine gives one scripted answer and keeps the request."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Any,
        script: Any,
        *,
        prompts: Any = None,
        ends_thinking: bool = False,
        adapters: EngineAdapters | None = None,
        facts: TokenizerFacts | None = None,
        **args: object,
    ) -> None:
        settings = Settings.load({"secret_token": "k", "model_name": "some/model", **args}, {})
        prompts = Prompts(
            tokenizer, PlainText(tokenizer), **{"has_chat_template": True, "takes_system": True, **(prompts or {})}
        )
        lists = NodeLists(ArtefactStore(folder, 2**30), self._nowhere, settings.mask_engine)
        self._answerer = ChatAnswerer(
            cast("LLMServer", self),
            settings,
            lists,
            prompts,
            reports_cost=True,
            ends_thinking=ends_thinking,
            adapters=LoadedAdapters(cast("LLMServer", self), adapters or EngineAdapters("m", {})),
            facts=facts or TokenizerFacts(TOKENS),
            states=EngineCache(folder, facts or TokenizerFacts(TOKENS)),
        )
        self._script = script
        self.request: Any = None
        self.cost: AnswerCost | None = None
        searches = SimpleNamespace(cost_of=lambda search: self.cost)
        self.engine = SimpleNamespace(_oai_serving_chat=SimpleNamespace(engine_client=searches))

    async def _nowhere(self, digest: str) -> bytes:
        raise AssertionError("the artefact lies on this node")

    async def chat(self, request: Any, raw_request_info: Any = None) -> AsyncIterator[Any]:
        self.request = request

        async def answer() -> AsyncIterator[Any]:
            for item in self._script:
                if isinstance(item, Exception):
                    raise item
                if callable(item):
                    item(request)
                else:
                    yield item

        return answer()

    async def items(
        self,
        vocabulary: ResolvedVocabulary | None = None,
        decoding: Decoding | None = None,
        owner: str = "alice",
        **fields: object,
    ) -> list[Any]:
        decoding = decoding or Decoding(no_repeat_ngram_size=0)
        request = TextRequest({**BODY, **fields}, vocabulary, decoding, Caller(owner, "req-1"))
        return [item async for item in self._answerer.answer(request)]


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


@pytest.fixture
def vocabulary(tmp_path: Path) -> ResolvedVocabulary:
    words = build_words(word_list(["the", "cat", "sat"], "en"), toy_speller(toy_tokenizer([])))
    ArtefactFolder(tmp_path).save(words)
    return ResolvedVocabulary(digest=words.digest, options=DEFAULT_OPTIONS, lang="en", n_words=3, fewest_tokens=1)


@pytest.fixture
def sentences(vocabulary: ResolvedVocabulary) -> ResolvedVocabulary:
    """The same list, in whole sentences."""
    return vocabulary.model_copy(update={"options": ListOptions(end="sentence"), "fewest_tokens": 2})


def whole(text: str | None, **fields: object) -> Any:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "stop_reason": None, **fields}
    return SimpleNamespace(model_dump=lambda **_: {"choices": [choice]})


def event(text: str, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def refused(status: int) -> Any:
    error = {"message": "secret", "code": status, "param": None}
    return SimpleNamespace(error=SimpleNamespace(model_dump=lambda: error))


DONE = "data: [DONE]\n\n"


async def test_a_free_stream_passes_unchanged(tmp_path: Path, tokenizer: Any) -> None:
    events = [event("any"), event("thing", "stop"), DONE]
    replica = ScriptedReplica(tmp_path, tokenizer, [events[:2], events[2:]])
    assert await replica.items(stream=True) == events
    assert replica.request.request_id == "req-1"
    assert replica.request.structured_outputs is None


async def test_each_key_has_its_own_part_of_the_prefix_cache(tmp_path: Path, tokenizer: Any) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("anything")])
    salts = []
    for owner in ("alice", "alice", "bob"):
        await replica.items(owner=owner, cache_salt="a client's")
        salts.append(replica.request.cache_salt)
    assert salts[0] == salts[1] != salts[2]
    assert len(salts[0]) == len(salts[2]) == 64
    shared = ScriptedReplica(tmp_path, tokenizer, [whole("anything")], prefix_cache_per_key=False)
    await shared.items()
    assert shared.request.cache_salt is None


async def test_a_constrained_request_names_its_list_and_budget(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")])
    [answer] = await replica.items(vocabulary)
    assert GrammarReference.parse(replica.request.structured_outputs.grammar) == GrammarReference(
        vocabulary.digest, DEFAULT_OPTIONS, 3, 9
    )
    assert answer["vocab"] == {
        "id": vocabulary.id, "list_id": vocabulary.digest, "lang": "en", "source": "inline", "n_words": 3,
        "unit": "form", "end": "word", "adapter": None, "num_words": 3, "num_distinct_words": 3, "max_rank": 3,
    }  # fmt: skip


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_has_the_name_that_was_asked_for_and_tells_its_adapter(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, stream: bool, is_merged: bool
) -> None:
    card = Card(languages=("en",))
    known = {"a": Adapter("a", tmp_path, "", {}, {}, (), card)}
    adapters = EngineAdapters("m", known, merged="a" if is_merged else None)
    choice = {"index": 0, "finish_reason": "stop", "stop_reason": None}
    text = {"role": "assistant", "content": "The cat sat."}
    chunk = {"model": "the engine's", "choices": [choice | {"delta": text}]}
    answered = SimpleNamespace(
        model_dump=lambda **_: {"model": "the engine's", "choices": [choice | {"message": text}]}
    )
    script = [[f"data: {json.dumps(chunk)}\n\n", DONE] if stream else answered]
    requests: list[tuple[str, ResolvedVocabulary | None]] = [("m", vocabulary), ("a", vocabulary), ("a", None)]
    for model, listed in requests:
        replica = ScriptedReplica(tmp_path, tokenizer, script, adapters=adapters)
        answer = await replica.items(listed, model=model, stream=stream)
        assert replica.request.model == ("m" if is_merged else "a")
        parts = [json.loads(one.removeprefix("data:")) for one in answer[:-1]] if stream else answer
        # What vLLM calls as the client does, passes unchanged.
        assert {part["model"] for part in parts} == {"the engine's" if model == replica.request.model else model}
        if listed is not None:
            assert parts[-1]["vocab"]["adapter"] == "a"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_of_whole_sentences_that_may_be_cut_is_cut_to_whole_sentences(
    tmp_path: Path, tokenizer: Any, sentences: ResolvedVocabulary, stream: bool
) -> None:
    text = "The cat sat. The cat"
    script = [[event(text[:9]), event(text[9:17]), event(text[17:], "length"), DONE] if stream else whole(text)]
    replica = ScriptedReplica(tmp_path, tokenizer, script, engine_kwargs={"reasoning_parser": "some"})
    answer = await replica.items(sentences, stream=stream)
    if stream:
        chunks = [json.loads(item.removeprefix("data:")) for item in answer[:-1]]
        sent = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
        block = chunks[-1]["vocab"]
    else:
        sent, block = answer[0]["choices"][0]["message"]["content"], answer[0]["vocab"]
    assert sent == "The cat sat."
    assert block["num_words"] == 3


async def test_a_text_cut_within_its_sentence_is_no_answer_where_nothing_may_cut_it(
    tmp_path: Path, tokenizer: Any, sentences: ResolvedVocabulary
) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [whole("The cat")]).items(sentences)
    assert (answer.status, answer.code) == (500, "unlisted_text")


async def test_an_order_goes_with_a_request_that_asks_for_more_than_a_sample(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    for listed in (vocabulary, None):
        replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")])
        [answer] = await replica.items(listed, Decoding(best_of=4))
        assert "generated_tokens" not in answer.get("vocab", {})
        assert replica.request._extras.search.decoding.best_of == 4
        await replica.items(listed, Decoding())
        assert replica.request._extras.search is None


@pytest.mark.parametrize("stream", [False, True])
async def test_the_cost_of_a_search_comes_with_the_answer_of_a_list(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, stream: bool
) -> None:
    script = [[event("The cat "), event("sat.", "stop"), DONE] if stream else whole("The cat sat.")]
    replica = ScriptedReplica(tmp_path, tokenizer, script)
    replica.cost = AnswerCost(TextScore(log_p=-3.0, log_mass=-1.5, num_tokens=4), 17)
    answer = await replica.items(vocabulary, Decoding(best_of=4), stream=stream)
    block = (json.loads(answer[-2].removeprefix("data:")) if stream else answer[0])["vocab"]
    assert (block["generated_tokens"], block["log_mass_per_word"]) == (17, 0.5)
    free = await replica.items(None, Decoding(best_of=4), stream=stream)
    assert free == script[0] if stream else "vocab" not in free[0]
    plain = await replica.items(vocabulary, Decoding(), stream=stream)
    assert "generated_tokens" not in str(plain)


@pytest.mark.parametrize("name", ["m", "a"])
async def test_the_usage_says_how_long_the_answer_took(tmp_path: Path, tokenizer: Any, name: str) -> None:
    adapters = EngineAdapters("m", {"a": Adapter("a", tmp_path, "", {}, {}, (), Card())})
    metrics = {"queue_time_ms": 1.23456, "mean_itl_ms": None, "speculative_decoding": None}
    usage = {"model": "m", "choices": [], "usage": {"total_tokens": 3}, "metrics": metrics}
    script = [event('"usage":{'), f"data: {json.dumps(usage, separators=(',', ':'))}\n\n", DONE]
    replica = ScriptedReplica(tmp_path, tokenizer, [script], adapters=adapters)
    first, last, _ = await replica.items(model=name, stream=True)
    assert first == script[0], "a text that looks like a usage is none"
    found = json.loads(last.removeprefix("data:"))
    assert "metrics" not in found
    assert found["usage"]["total_tokens"] == 3
    assert found["usage"]["timing"].keys() == {"queue_time_ms", "total_time_ms"}
    assert found["usage"]["timing"]["queue_time_ms"] == 1.235
    answered = SimpleNamespace(model_dump=lambda **_: {**usage, "metrics": None, "usage": {"total_tokens": 4}})
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [answered], adapters=adapters).items(model=name)
    assert answer["usage"]["timing"].keys() == {"total_time_ms"}


def generated(token: int, logprob: float, top: dict[int, float] | None = None) -> Any:
    """What the engine's client does with one token."""
    entries = {token: Logprob(logprob), **{other: Logprob(value) for other, value in (top or {}).items()}}
    completion = CompletionOutput(0, "", [token], None, [entries])

    def record(request: Any) -> None:
        request._extras.details.record(completion)
        assert completion.logprobs is None

    return record


@pytest.mark.parametrize("is_listed", [True, False])
async def test_token_details_come_with_the_text_of_their_tokens(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, is_listed: bool
) -> None:
    script = [
        generated(0, -0.5, {2: mark(-1.0)}),
        event(""),
        event("The"),
        generated(1, mark(-3.0), {2: mark(-0.1), 0: mark(-4.0)}),
        event(" cat"),
        generated(3, -0.25),
        generated(4, 1e-9),
        event(".", "stop"),
        DONE,
    ]
    replica = ScriptedReplica(tmp_path, tokenizer, script)
    options = {"token_details": True, "top_k": 2, "include_usage": True}
    items = await replica.items(vocabulary if is_listed else None, stream=True, stream_options=options)
    choices = [json.loads(item.removeprefix("data:"))["choices"][0] for item in items[:-1]]
    assert all(choice["logprobs"] is None for choice in choices)
    parts = [
        (choice["delta"]["content"], [bytes(one["bytes"]) for one in choice["token_details"]]) for choice in choices
    ]
    if is_listed:
        # Until a word is known to be whole it waits, and so do its tokens; the blank after it is a part of the next.
        assert parts == [("The ", [b"The"]), ("cat.", [b" cat", b".", b""])]
    else:
        assert parts == [("", []), ("The", [b"The"]), (" cat", [b" cat"]), (".", [b".", b""])]
    details = [one for choice in choices for one in choice["token_details"]]
    assert [one["prob"] for one in details] == pytest.approx([math.exp(log_p) for log_p in (-0.5, -3, -0.25, 0)])
    assert [one["is_forced"] for one in details] == [False, True, False, False]
    assert [[(top["token_id"], top["is_masked"]) for top in one["top_k"]] for one in details] == [
        [(0, False), (2, True)], [(2, True), (1, False), (0, True)], [(3, False)], [(4, False)],
    ]  # fmt: skip
    assert all(one["latency_ms"] >= 0 and one["is_generated"] for one in details)
    assert replica.request.stream_options.include_usage is True
    params = replica.request.to_sampling_params(9, {})
    assert (params.logprobs, params.extra_args[UNMASKED_TOP]) == (2, True)
    few = ScriptedReplica(tmp_path, tokenizer, script, limits={"max_top_logprobs": 0})
    await few.items(vocabulary if is_listed else None, stream=True, stream_options={"token_details": True})
    assert few.request.to_sampling_params(9, {}).logprobs == 0


async def test_what_must_not_come_twice_is_part_of_the_constraint(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")])
    await replica.items(vocabulary, Decoding(no_repeat_ngram_size=3))
    reference = GrammarReference.parse(replica.request.structured_outputs.grammar)
    assert reference is not None and reference.no_repeat == 3
    assert replica.request._extras.search is None


@pytest.mark.parametrize("default", [4, 0])
async def test_a_service_says_whether_runs_come_twice_in_constrained_text(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, default: int
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")], no_repeat_ngram_size=default)
    for asked, expected in ((None, default or None), (0, None)):
        await replica.items(vocabulary, Decoding(no_repeat_ngram_size=asked))
        reference = GrammarReference.parse(replica.request.structured_outputs.grammar)
        assert reference is not None and reference.no_repeat == expected
    for chosen, expected in ((vocabulary, default), (None, 0)):
        await replica.items(chosen, Decoding(num_beams=2))
        assert replica.request._extras.search.decoding.no_repeat_ngram_size == expected


async def test_a_grammar_has_no_rule_against_runs(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")], mask_engine="xgrammar")
    [answer] = await replica.items(vocabulary, Decoding(best_of=2))
    assert "error" not in answer
    assert replica.request._extras.search.decoding.no_repeat_ngram_size == 0


THINKS: dict[str, Any] = {"engine_kwargs": {"reasoning_parser": "some"}}
THOUGHTS = "Zebras? No; none of the list."


def thought(reasoning: str | None, **delta: Any) -> str:
    choice = {"index": 0, "delta": {"reasoning": reasoning, **delta}, "finish_reason": None}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


async def test_an_answer_that_thinking_left_no_room_for_is_trimmed(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    for text, kept in (("The cat sat. The c", "The cat sat. The"), ("Th", ""), (None, None)):
        script = [whole(text, finish_reason="length")]
        [answer] = await ScriptedReplica(tmp_path, tokenizer, script, **THINKS).items(vocabulary)
        assert answer["choices"][0]["message"]["content"] == kept
        assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("shows", [True, False, None])
@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_are_free_and_shown_unless_the_client_wants_none(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, stream: bool, shows: bool | None
) -> None:
    begun = (
        'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}\n\n'
    )
    script: list[Any] = [
        [
            begun,
            thought(THOUGHTS[:9]),
            thought(THOUGHTS[9:], content=None),
            event("The cat "),
            event("sat.", "stop"),
            DONE,
        ]
    ]
    if not stream:
        made = whole("The cat sat.").model_dump()
        made["choices"][0]["message"]["reasoning"] = THOUGHTS
        script = [SimpleNamespace(model_dump=lambda **_: made)]
    replica = ScriptedReplica(tmp_path, tokenizer, script, **THINKS)
    fields: dict[str, Any] = {} if shows is None else {"include_reasoning": shows}
    items = await replica.items(vocabulary, stream=stream, **fields)
    # vLLM would take false for leave to mask what the model thinks, and would call it thoughts all the same.
    assert replica.request.include_reasoning
    parts = [
        choice.get("delta") or choice["message"]
        for item in items
        if item != DONE
        for choice in (json.loads(item.removeprefix("data:")) if stream else item)["choices"]
    ]
    assert "".join(part.get("content") or "" for part in parts) == "The cat sat."
    assert "".join(part.get("reasoning") or "" for part in parts) == ("" if shows is False else THOUGHTS)
    assert not stream or len(parts) == (3 if shows is False else 5)


@pytest.mark.parametrize(
    ("max_tokens", "asked", "given"),
    [(400, None, 300), (400, 50, 50), (400, 350, 300), (400, -1, 300), (8, None, 2), (5, None, 0)],
)
async def test_part_of_the_budget_is_kept_for_the_answer(
    tmp_path: Path, tokenizer: Any, sentences: ResolvedVocabulary, max_tokens: int, asked: int | None, given: int
) -> None:
    for ends_thinking in (True, False):
        replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")], ends_thinking=ends_thinking, **THINKS)
        fields: dict[str, Any] = {} if asked is None else {"thinking_token_budget": asked}
        await replica.items(sentences, max_tokens=max_tokens, **fields)
        usual = None if asked in (None, -1) else asked
        assert replica.request.thinking_token_budget == (given if ends_thinking else usual)
        reference = GrammarReference.parse(replica.request.structured_outputs.grammar)
        assert reference is not None and reference.max_tokens == max_tokens


@pytest.mark.parametrize("settings", [{"mask_engine": "xgrammar"}, THINKS], ids=["xgrammar", "thinks"])
async def test_a_completion_that_cannot_be_held_to_a_list_is_refused(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, settings: dict[str, Any]
) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [], **settings).items(vocabulary, prompt="The cat. ")
    assert (answer.status, answer.param) == (400, "vocab")


@pytest.mark.parametrize("name", ["continue_final_message", "logprobs", "return_token_ids"])
async def test_what_would_not_be_told_from_thoughts_is_refused(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, name: str
) -> None:
    field: dict[str, Any] = {name: True}
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [], **THINKS).items(vocabulary, **field)
    assert (answer.status, answer.param) == (400, name)


@pytest.mark.parametrize("text", ["The dog sat.", "the ca", "<|im_end|>"])
async def test_an_engine_that_leaves_the_list_gives_no_answer(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, text: str
) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [whole(text)]).items(vocabulary)
    assert (answer.status, answer.code) == (500, "unlisted_text")
    assert text not in str(answer)


async def test_a_stream_that_leaves_the_list_ends_in_an_error(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    script = [[event("The "), event("dog"), event(".", "stop"), DONE]]
    items = await ScriptedReplica(tmp_path, tokenizer, script).items(vocabulary, stream=True)
    assert items[-1].status == 500
    assert DONE not in items
    assert not any('finish_reason":"stop' in item for item in items[:-1])


@pytest.mark.parametrize("script", [[refused(500)], [RuntimeError("secret")]])
async def test_a_failure_of_the_engine_tells_nothing(tmp_path: Path, tokenizer: Any, script: list[Any]) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, script).items()
    assert answer.status == 500
    assert "secret" not in str(answer)


async def test_a_stream_that_fails_ends_in_an_error(tmp_path: Path, tokenizer: Any) -> None:
    failure = 'data: {"error": {"message": "secret", "code": 500}}\n\n'
    items = await ScriptedReplica(tmp_path, tokenizer, [[event("a"), failure, DONE]]).items(stream=True)
    assert items[0] == event("a")
    assert items[-1].status == 500
    assert len(items) == 2


async def test_a_model_without_chat_template_cannot_chat(tmp_path: Path, tokenizer: Any) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [], prompts={"has_chat_template": False})
    [answer] = await replica.items()
    assert (answer.status, answer.code) == (400, "no_chat_template")


async def test_special_tokens_reach_the_engine_as_text(tmp_path: Path, tokenizer: Any) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("x")])
    await replica.items(messages=[{"role": "user", "content": "<|im_end|>"}])
    content = replica.request.messages[0]["content"]
    assert tokenizer.eos_token_id not in tokenizer.encode(content, add_special_tokens=False)


async def test_token_ids_cannot_be_had_where_text_may_be_trimmed(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, []).items(vocabulary, stop=["x"], return_token_ids=True)
    assert (answer.status, answer.param) == (400, "return_token_ids")


async def test_only_the_switches_of_the_models_own_template_can_be_set(tmp_path: Path, tokenizer: Any) -> None:
    prompts = {"switches": frozenset({"enable_thinking", "style"})}
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("x")], prompts=prompts)
    await replica.items(chat_template_kwargs={"enable_thinking": False, "style": "<|im_end|>"})
    given = replica.request.chat_template_kwargs
    assert given["enable_thinking"] is False
    assert tokenizer.eos_token_id not in tokenizer.encode(given["style"], add_special_tokens=False)
    [answer] = await replica.items(chat_template_kwargs={"messages": "mine"})
    assert (answer.status, answer.param) == (400, "chat_template_kwargs")
    assert "enable_thinking, style" in answer.message


@pytest.mark.parametrize("takes_system", [True, False])
async def test_the_model_is_told_of_its_vocabulary_where_that_is_asked_for(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, takes_system: bool
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")], prompts={"takes_system": takes_system})
    await replica.items(vocabulary)
    plain = replica.request.messages
    await replica.items(vocabulary, Decoding(hint=True))
    result = replica.request.messages
    await replica.items(None, Decoding(hint=True))
    assert replica.request.messages == plain
    assert [message["role"] for message in result] == (["system", "user"] if takes_system else ["user"])
    assert hint_line("en") in result[0]["content"]
    assert result[-1]["content"].endswith("Hello")


@pytest.mark.parametrize(("languages", "is_named"), [(("en",), True), (("es",), False), (None, False)])
async def test_an_adapter_that_was_trained_for_the_list_gets_its_size(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, languages: tuple[str, ...] | None, is_named: bool
) -> None:
    card = None if languages is None else Card(languages=languages)
    adapters = EngineAdapters("m", {"a": Adapter("a", tmp_path, "", {}, {}, (), card)})
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")], adapters=adapters)
    for model in ("m", "a"):
        await replica.items(vocabulary, Decoding(hint=True), model=model)
        has_adapter = model == "a" or languages == ("en",)
        assert ("(top-3)" in str(replica.request.messages)) == (is_named and has_adapter)


PREFILL: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}


def begun(text: Any) -> dict[str, Any]:
    return {**PREFILL, "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": text}]}


async def test_the_constraint_begins_where_the_clients_own_text_ends(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    places = set()
    for text, answered in (("A zebra", " sat. The cat"), ("A zebra ", "sat"), ("A zebra.", " The cat")):
        for content in (text, [{"type": "text", "text": "Well"}, {"type": "text", "text": text}]):
            replica = ScriptedReplica(tmp_path, tokenizer, [whole(answered)])
            [answer] = await replica.items(vocabulary, **begun(content))
            assert answer["choices"][0]["message"]["content"] == answered
            assert answer["vocab"]["num_words"] == len(answered.split())
            reference = GrammarReference.parse(replica.request.structured_outputs.grammar)
            assert reference is not None
            places.add(reference.place)
            assert replica.request.continue_final_message
    assert len(places) == 3


@pytest.mark.parametrize(("text", "answered"), [("A zebra", "sat"), ("A zebra ", " sat"), ("A zebra", " The")])
async def test_what_does_not_fit_behind_the_clients_own_text_is_no_answer(
    tmp_path: Path, tokenizer: Any, sentences: ResolvedVocabulary, text: str, answered: str
) -> None:
    listed = sentences.model_copy(update={"options": ListOptions(end="word", case="sentence"), "fewest_tokens": 1})
    [answer] = await ScriptedReplica(tmp_path, tokenizer, [whole(answered)]).items(listed, **begun(text))
    assert answer.code == "unlisted_text"


async def test_a_text_that_breaks_off_inside_a_word_cannot_be_continued(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    [answer] = await ScriptedReplica(tmp_path, tokenizer, []).items(vocabulary, **begun("The ca"))
    assert (answer.status, answer.param) == (400, "messages")
    assert "breaks off inside a word: 'ca'" in answer.message


async def test_the_matcher_keeps_the_least_tokens_and_vllm_does_not(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [whole("The cat sat.")])
    await replica.items(vocabulary, min_tokens=5)
    reference = GrammarReference.parse(replica.request.structured_outputs.grammar)
    assert reference is not None and reference.min_tokens == 5
    assert replica.request.min_tokens == 0
    await replica.items(min_tokens=5)
    assert replica.request.min_tokens == 5


@pytest.mark.parametrize("fields", [{"min_tokens": 5}, begun("A zebra")])
async def test_a_grammar_can_neither_begin_in_a_text_nor_count_its_tokens(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary, fields: dict[str, Any]
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [], mask_engine="xgrammar")
    [answer] = await replica.items(vocabulary, **fields)
    assert answer.status == 400
    assert answer.param in fields


async def test_a_search_that_the_engine_cannot_do_is_refused(
    tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary
) -> None:
    replica = ScriptedReplica(tmp_path, tokenizer, [], mask_engine="xgrammar")
    [answer] = await replica.items(vocabulary, Decoding(num_beams=4))
    assert (answer.status, answer.param) == (400, "num_beams")


def test_a_service_that_does_not_fit_its_model_is_refused() -> None:
    settings = Settings.load({"secret_token": "k", "limits": {"max_input_tokens": 60, "max_new_tokens": 40}}, {})
    check_context(settings, 100)
    with pytest.raises(ValueError, match=r"MAX_INPUT_TOKENS \(60\).*ALLOWED_MAX_NEW_TOKENS \(40\).*99 tokens"):
        check_context(settings, 99)


@pytest.mark.parametrize(
    ("lines_in_flight", "max_num_seqs", "places"), [(10, 64, 10), (64, 64, 56), (500, 64, 56), (9, 4, 3), (9, 1, 1)]
)
def test_batches_leave_places_of_the_engine_free(lines_in_flight: int, max_num_seqs: int, places: int) -> None:
    settings = Settings.load({"secret_token": "k", "batch": {"lines_in_flight": lines_in_flight}}, {})
    scheduler = SimpleNamespace(max_num_seqs=max_num_seqs)
    client = SimpleNamespace(vllm_config=SimpleNamespace(scheduler_config=scheduler))
    server: Any = SimpleNamespace(engine=SimpleNamespace(_engine_client=client))
    assert Replica._num_batch_sequences(server, settings) == places
