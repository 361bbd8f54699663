"""Searches over an engine client that keeps to the list, and over one that does not."""

import asyncio
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from vllm.exceptions import VLLMValidationError
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from deployments.contract import Decoding
from deployments.search.outcome import AnswerCost
from deployments.search.text_engine import SAMPLE, Generation, TextEngine
from deployments.search.tokens import EngineStepError, ListFaultError
from tests.deployments.replica.toy_engine import ToyEngine
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.decoding.select import TextScore
from vocab.lists.wordlists import WordList
from vocab.marks import CLOSE_MARKS, JOINING_DASH, OPEN_MARKS, SENTENCE_MARKS, SPACED_DASHES, UNSPACED_SENTENCE_MARKS
from vocab.matching.engine_cache import EngineCache
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.text.gaps.automaton import build_gap_automaton, place_after
from vocab.vllm_plugin.kv_fork import ForkHint

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "slept")
PROMPT = {"type": "token", "prompt_token_ids": [1, 504, 2644], "prompt": "…"}
BUDGET = 12

SEARCHES = {
    "beams": Decoding(num_beams=3),
    "candidates": Decoding(best_of=4),
    "posterior": Decoding(best_of=4, select="posterior"),
    "sentences": Decoding(search_width=3, select="posterior"),
}


class World:
    """A list of eight words, and engines that know it."""

    def __init__(self, model_path: Path, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model_path)
        speller = Speller.from_tokenizer(self.tokenizer)
        self.facts = speller.facts
        words = build_words(WordList("en", WORDS, "file"), speller)
        ArtefactFolder(folder).save(words)
        self.lists = EngineCache(folder, self.facts)
        self.reference = GrammarReference(words.digest, ListOptions(punctuation="full"), len(WORDS), BUDGET)

    def engine(self, **options: bool) -> ToyEngine:
        return ToyEngine(self.tokenizer, self.lists, **options)

    def client(self, engine: ToyEngine) -> TextEngine:
        return TextEngine(engine, self.lists, self.facts)


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(smollm2_path, tmp_path_factory.mktemp("artefacts"))


def search_for(
    world: World, decoding: Decoding, *, free: bool = False, **fields: Any
) -> tuple[SamplingParams, Decoding]:
    fields = {"max_tokens": BUDGET, "temperature": 0.8, "output_kind": RequestOutputKind.FINAL_ONLY} | fields
    grammar = None if free else StructuredOutputsParams(grammar=world.reference.to_ebnf())
    return SamplingParams(structured_outputs=grammar, skip_clone=True, **fields), decoding


async def outputs_of(answer: Generation) -> list[RequestOutput]:
    return [output async for output in answer.outputs]


def cost_of(answer: Generation) -> AnswerCost:
    assert answer.cost is not None
    return answer.cost


def assert_listed(text: str) -> None:
    marks = CLOSE_MARKS + OPEN_MARKS + SPACED_DASHES
    words = [word.strip(marks).lower() for word in text.replace(JOINING_DASH, " ").split()]
    assert {word.removesuffix("'s").removesuffix("’s") for word in words if word} <= set(WORDS), text


def log_p_of(engine: ToyEngine, tokens: list[int]) -> float:
    """Counted again, from the engine's own table."""
    before = PROMPT["prompt_token_ids"]
    assert isinstance(before, list)
    return math.fsum(float(engine.log_p([*before, *tokens[:i]])[token]) for i, token in enumerate(tokens))


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_gives_one_whole_listed_text_and_its_cost(world: World, name: str) -> None:
    engine = world.engine(keeps_work=True)
    params, search = search_for(world, SEARCHES[name], seed=1)
    client = world.client(engine)
    prompt = {**PROMPT, "cache_salt": "of a key"}
    written = client.generate(prompt, params, "r", search, priority=3, lora_request="an adapter")
    assert written.cost is None
    [answer] = await outputs_of(written)
    cost = cost_of(written)
    [choice] = answer.outputs
    assert (answer.finished, answer.request_id, answer.prompt_token_ids) == (True, "r", PROMPT["prompt_token_ids"])
    assert_listed(choice.text)
    assert choice.finish_reason in ("stop", "length")
    assert len(choice.token_ids) <= BUDGET
    assert world.tokenizer.decode(choice.token_ids, skip_special_tokens=True) == choice.text
    assert cost.score.log_p == pytest.approx(log_p_of(engine, list(choice.token_ids)), abs=1e-6)
    assert cost.score.num_tokens == len(choice.token_ids) <= cost.num_tokens
    assert cost.score.log_mass < 0
    assert engine.num_running == 0
    assert all(options == {"priority": 3, "lora_request": "an adapter"} for _, _, _, options in engine.requests)
    assert len(engine.requests) > 1
    assert engine.salts == {"of a key"}, "every step stays in its key's part of the prefix cache"


async def test_a_stream_of_sentences_adds_up_to_the_whole(world: World) -> None:
    texts = []
    for kind in (RequestOutputKind.DELTA, RequestOutputKind.FINAL_ONLY):
        params, search = search_for(world, SEARCHES["sentences"], seed=4, max_tokens=40, output_kind=kind)
        answers = await outputs_of(world.client(world.engine()).generate(PROMPT, params, "r", search))
        assert [answer.finished for answer in answers] == [False] * (len(answers) - 1) + [True]
        assert [answer.outputs[0].finish_reason is None for answer in answers[:-1]] == [True] * (len(answers) - 1)
        texts.append("".join(answer.outputs[0].text for answer in answers))
        if kind == RequestOutputKind.DELTA:
            assert len(answers) > 1
            # A token may have a quotation mark after the sentence mark.
            assert all(set(answer.outputs[0].text[-4:]) & set(SENTENCE_MARKS) for answer in answers[:-1])
    assert texts[0] == texts[1]
    assert_listed(texts[0])


async def test_the_engine_itself_stops_at_the_end_of_a_sentence(world: World) -> None:
    engine = world.engine()
    params, search = search_for(world, SEARCHES["sentences"], max_tokens=40, seed=4)
    await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
    spelled = {world.facts.token_bytes[token] for token in engine.requests[0][1].stop_token_ids}
    assert spelled >= {b".", b"!", b"?", b'."', "…".encode()}
    assert all(set(text.decode()) & set(SENTENCE_MARKS + UNSPACED_SENTENCE_MARKS) for text in spelled)
    assert all(step.stop_token_ids == engine.requests[0][1].stop_token_ids for _, step, _, _ in engine.requests)
    assert not params.stop_token_ids
    params, search = search_for(world, SEARCHES["candidates"], seed=4)
    engine = world.engine()
    await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
    assert not any(step.stop_token_ids for _, step, _, _ in engine.requests)


async def test_a_step_names_the_state_and_what_is_left_of_the_budget(world: World) -> None:
    engine = world.engine()
    params, search = search_for(world, Decoding(num_beams=2))
    await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
    states = world.lists.states(world.reference)
    for prompt, step, _, _ in engine.requests:
        reference = GrammarReference.parse(step.structured_outputs.grammar)
        assert reference is not None
        so_far = prompt[len(PROMPT["prompt_token_ids"]) :]
        assert reference.max_tokens == BUDGET - len(so_far)
        state = states.start
        for place, token in enumerate(so_far):
            state = states.target(state, token, BUDGET - place - 1)
        assert reference.start == (state if so_far else None)


@pytest.mark.parametrize("name", [*SEARCHES, None])
async def test_a_text_that_was_begun_must_fit_into_its_budget(world: World, name: str | None) -> None:
    options = ListOptions(punctuation="standard", end="sentence")
    place = place_after('Zoe said: "', build_gap_automaton(options, "en"), "en")
    reference = replace(world.reference, options=options, place=place)
    for max_tokens, begins in ((1, None), (BUDGET, True)):
        params, search = search_for(world, SEARCHES.get(name or "", Decoding()), max_tokens=max_tokens, seed=2)
        grammar = replace(reference, max_tokens=max_tokens).to_ebnf()
        params.structured_outputs = StructuredOutputsParams(grammar=grammar)
        engine = world.engine()
        answer = world.client(engine).generate(PROMPT, params, "r", search)
        if begins is None:
            with pytest.raises(VLLMValidationError, match="'max_tokens' must be at least"):
                await outputs_of(answer)
            assert not engine.requests
            continue
        text = (await outputs_of(answer))[-1].outputs[0].text
        assert_listed(text)
        assert not text[0].isspace()
        assert '"' in text


async def test_the_least_tokens_of_a_text_are_those_of_its_steps_together(world: World) -> None:
    params, search = search_for(world, SEARCHES["candidates"], max_tokens=40, seed=2)
    grammar = replace(world.reference, max_tokens=40, min_tokens=30).to_ebnf()
    params.structured_outputs = StructuredOutputsParams(grammar=grammar)
    engine = world.engine()
    [answer] = await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
    assert len(answer.outputs[0].token_ids) >= 30
    for prompt, step, _, _ in engine.requests:
        reference = GrammarReference.parse(step.structured_outputs.grammar)
        assert reference is not None
        assert reference.min_tokens == max(30 - len(prompt) + len(PROMPT["prompt_token_ids"]), 0)


async def test_draws_of_a_seeded_request_differ_and_come_again(world: World) -> None:
    seeds = []
    for seed in (7, 7, 8, None):
        engine = world.engine()
        params, search = search_for(world, Decoding(best_of=4), seed=seed)
        await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
        seeds.append([step.seed for _, step, _, _ in engine.requests])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0]) | set(seeds[2])) == 8
    assert seeds[3] == [None] * 4


async def test_free_text_is_searched_without_a_list(world: World) -> None:
    engine = world.engine()
    params, search = search_for(world, Decoding(num_beams=2), free=True, max_tokens=3)
    written = world.client(engine).generate(PROMPT, params, "r", search)
    [answer] = await outputs_of(written)
    cost = cost_of(written)
    assert cost.score.log_mass == 0
    assert cost.score.log_p == pytest.approx(log_p_of(engine, list(answer.outputs[0].token_ids)), abs=1e-6)


async def test_a_stop_string_of_the_clients_ends_a_candidate(world: World) -> None:
    params, search = search_for(world, Decoding(best_of=2), stop=["cat", "sat", "mat", "the", "a", "on"], seed=3)
    [answer] = await outputs_of(world.client(world.engine()).generate(PROMPT, params, "r", search))
    assert answer.outputs[0].finish_reason == "stop"
    assert answer.outputs[0].stop_reason in params.stop


@pytest.mark.parametrize("kind", [RequestOutputKind.DELTA, RequestOutputKind.FINAL_ONLY])
@pytest.mark.parametrize("logprobs", [None, 2])
async def test_a_score_changes_nothing_of_the_answer(world: World, kind: RequestOutputKind, logprobs: int) -> None:
    params, search = search_for(world, Decoding(score=True), seed=5, output_kind=kind, logprobs=logprobs)
    engine = world.engine()
    written = world.client(engine).generate(PROMPT, params.clone(), "r", search)
    scored = await outputs_of(written)
    cost = cost_of(written)
    plain = await outputs_of(world.client(world.engine()).generate(PROMPT, params, "r", SAMPLE))
    assert [one.outputs[0].text for one in scored] == [one.outputs[0].text for one in plain]
    tokens = [token for one in scored for token in one.outputs[0].token_ids]
    assert all((one.outputs[0].logprobs is None) == (logprobs is None) for one in scored)
    assert cost.num_tokens == cost.score.num_tokens == len(tokens)
    assert cost.score.log_p == pytest.approx(log_p_of(engine, tokens), abs=1e-6)
    assert cost.score.log_mass < 0


async def test_a_score_does_not_depend_on_when_a_stream_is_read(world: World) -> None:
    costs = []
    for is_late in (False, True):
        engine = world.engine()
        engine.is_read_late = is_late
        params, search = search_for(
            world, Decoding(score=True), seed=5, output_kind=RequestOutputKind.DELTA, logprobs=3
        )
        written = world.client(engine).generate(PROMPT, params, "r", search)
        assert (len(await outputs_of(written)) == 1) == is_late
        costs.append(cost_of(written))
    assert costs[0] == costs[1]


def fail(engine: ToyEngine) -> None:
    engine.num_answers, engine.failure = 2, RuntimeError("the engine is dead")


def give_up(engine: ToyEngine) -> None:
    engine.finish_reason = "abort"


def leave_the_list(engine: ToyEngine) -> None:
    engine.lie = engine.tokenizer.encode(" unlisted")[0]


@pytest.mark.parametrize("name", SEARCHES)
async def test_one_failed_step_is_the_failure_of_the_whole(world: World, name: str) -> None:
    """Also one that the engine gave up, and one that does not keep to the list."""
    failures: list[tuple[Any, Any]] = [
        (fail, RuntimeError), (give_up, EngineStepError), (leave_the_list, (ListFaultError, EngineStepError)),
    ]  # fmt: skip
    for make, expected in failures:
        engine = world.engine()
        make(engine)
        params, search = search_for(world, SEARCHES[name])
        with pytest.raises(expected):
            await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
        assert engine.num_running == 0


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_that_is_cancelled_or_closed_leaves_nothing_running(world: World, name: str) -> None:
    for num_answers in (0, 1, 3):
        engine = world.engine()
        engine.num_answers = num_answers
        params, search = search_for(world, SEARCHES[name], max_tokens=40)
        task = asyncio.create_task(outputs_of(world.client(engine).generate(PROMPT, params, "r", search)))
        await until(lambda engine=engine, num_answers=num_answers: len(engine.requests) > num_answers)
        assert engine.num_running > 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.num_running == 0
    engine = world.engine(keeps_work=True)
    client = world.client(engine)
    params, search = search_for(world, SEARCHES[name], max_tokens=60, output_kind=RequestOutputKind.DELTA, seed=4)
    answer = client.generate(PROMPT, params, "r", search).outputs
    await anext(answer)
    await answer.aclose()
    assert engine.num_running == 0


async def test_an_engine_that_keeps_work_is_told_what_to_keep_and_what_to_let_go(world: World) -> None:
    engine = world.engine(keeps_work=True)
    client = world.client(engine)
    for name in ("beams", "sentences"):
        params, search = search_for(world, SEARCHES[name], max_tokens=30, seed=4)
        await outputs_of(client.generate(PROMPT, params, "r", search))
    params, search = search_for(world, SEARCHES["beams"])
    await outputs_of(client.generate(PROMPT, params, "r", search))
    kept: set[str] = set()
    released: set[str] = set()
    for _, step, _, _ in engine.requests:
        fork = ForkHint.parse((step.extra_args or {}).get("kv_transfer_params"))
        if fork is None:
            continue
        assert fork.parent is None or fork.parent in kept - released
        released |= set(fork.release)
        assert released <= kept
        if fork.keep:
            assert fork.keep not in kept
            kept.add(fork.keep)
    # What the last search left waits for the next.
    assert len(released) > len(kept) - 10


async def test_a_search_needs_a_prompt_of_tokens_and_a_budget(world: World) -> None:
    params, search = search_for(world, Decoding(best_of=2), max_tokens=None)
    with pytest.raises(VLLMValidationError):
        await outputs_of(world.client(world.engine()).generate(PROMPT, params, "r", search))
    params, search = search_for(world, Decoding(best_of=2))
    with pytest.raises(VLLMValidationError):
        await outputs_of(world.client(world.engine()).generate({"type": "embeds"}, params, "r", search))


async def until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        # A thread makes the list's states meanwhile.
        await asyncio.sleep(0.001)


def test_the_price_is_told_per_word_and_per_character_with_four_digits() -> None:
    for score, num_tokens, text, num_words, expected in (
        (TextScore(log_p=-8 * math.log(2), log_mass=-1.0, num_tokens=4), 12, "the cat.", 2, (0.5, 1.0)),
        (TextScore(log_p=-1.0, log_mass=-1 / 3), 1, "abc", 1, (0.3333, 0.4809)),
        (TextScore(log_p=-1.0), 3, "", 0, (None, None)),
    ):
        found = AnswerCost(score, num_tokens).block(text, num_words)
        assert found == {
            "log_mass_per_word": expected[0], "bits_per_char": expected[1], "generated_tokens": num_tokens,
        }  # fmt: skip
