"""The word tools over an engine that says what a test wants: rows and scores of a model made of a table."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ray.serve.llm.deployment import LLMServer

from deployments.contract import Answer, Caller, ResolvedVocabulary, TextRequest, Tool, VocabularySpec, WordToolRequest
from deployments.errors import ApiError, EngineError
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine.engine import too_long
from deployments.replica.engine.loaded_adapters import EngineAdapters, LoadedAdapters
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.word_tools import rewrite
from deployments.replica.word_tools.tool_answerer import WordTools
from deployments.settings.service import Settings
from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.artefacts.artefact import overlay_to_bytes
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.overlay import build_overlay
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import EngineCache
from vocab.text.changes import ListChanges

WORDS = (
    "the",
    "a",
    "an",
    "cat",
    "dog",
    "apple",
    "ate",
    "eat",
    "eats",
    "big",
    "it",
    "was",
    "buy",
    "bought",
    "and",
    "sat",
)
PIECES = [piece for word in WORDS for piece in (word, f" {word}")]
FACTS = toy_tokenizer(PIECES)
SPELLER = toy_speller(FACTS)
ALICE = Caller("alice", "req-1")
SPEC = VocabularySpec(lang="en", n_words=len(WORDS))

LIKELY = {
    "The": {" cat": 0.4, " dog": 0.3, " apple": 0.1},
    'means the same as "': {"bought": 0.5, "buy": 0.2, "dog": 0.1},
}
"""By the end of a text, what may come next; everything else shares what is left."""

MOST_TOKENS = 400


class Rows:
    """In place of ``RowAnswerer``: a text's score is what its words are worth, of which "bought" is worth most."""

    max_scored_tokens = MOST_TOKENS

    def __init__(self) -> None:
        self.num_ended = 0
        self.stalls = asyncio.Event()
        self.is_stalled = False

    async def read(self, texts: Sequence[str], body: dict[str, Any], caller: Caller) -> list[list[int]]:
        read = [list(tokens or ()) for tokens in SPELLER.spell(texts)]
        if max(map(len, read)) > MOST_TOKENS:
            raise too_long(f"{MOST_TOKENS} tokens", "prompt")
        return read

    def check_length(self, num_tokens: int, param: str) -> None:
        if num_tokens > MOST_TOKENS:
            raise too_long(f"{MOST_TOKENS} tokens", param)

    async def rows(self, prompts: Sequence[list[int]], first: int, caller: Caller, width: int) -> list[Any]:
        assert len(prompts) <= width
        if self.is_stalled:
            self.stalls.set()
            try:
                await asyncio.sleep(3600)
            finally:
                self.num_ended += 1
        return [self._row(text_of(prompt)) for prompt in prompts]

    def _row(self, text: str) -> Any:
        likely = next((after for end, after in LIKELY.items() if text.endswith(end)), {})
        left = 1 - sum(likely.values())
        row = np.full(len(FACTS), left / len(FACTS))
        if text.endswith(tuple(f" {word}" for word in WORDS)) or text.rpartition('"')[2] in WORDS:
            row[:] = 1e-6
            row[FACTS.token_bytes.index(b".")] = 1 - 1e-6 * len(FACTS)
        for piece, share in likely.items():
            row[FACTS.token_bytes.index(piece.encode())] += share
        return np.log(row / row.sum()).astype(np.float32)

    async def scores(
        self, pairs: Sequence[tuple[list[int], list[int]]], name: str, caller: Caller, width: int
    ) -> list[list[float]]:
        worth = {"bought": 50.0, "Dog": 3.0, "dog": 2.0, "It ate an apple": 90.0, "It bought it": 60.0}
        found = []
        for prompt, scored in pairs:
            text = text_of([*prompt, *scored])
            found.append([*[-0.1] * len(scored), sum(value for one, value in worth.items() if one in text)])
        return found


def text_of(tokens: Sequence[int]) -> str:
    return b"".join(FACTS.token_bytes[token] for token in tokens).decode()


class World:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.store = ArtefactStore(folder, 2**30)
        self.words = build_words(WordList("en", WORDS, "wordfreq"), SPELLER)
        self.store.save(self.words)
        self.rows = Rows()
        self.asked: list[dict[str, Any]] = []
        self.result: Any = {
            "choices": [{"message": {"content": "It was\nbig."}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 4},
        }

        async def fetch(digest: str) -> bytes:
            raise AssertionError("all is here")

        self.tools = WordTools(
            Settings.load({"secret_token": "k", **settings}, {}),
            NodeLists(self.store, fetch, "automaton"),
            EngineCache(folder, FACTS),
            FACTS,
            cast("RowAnswerer", self.rows),
            self._chat,
            self.resolve,
            LoadedAdapters(cast("LLMServer", None), EngineAdapters("google/gemma-3-27b-it", {})),
        )

    async def resolve(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary:
        digest = None
        if spec.changes:
            overlay = build_overlay(self.words, ListChanges(spec.extra_words, spec.exclude_words), SPELLER)
            self.store.write_bytes(overlay.digest, overlay_to_bytes(overlay))
            digest = overlay.digest
        return ResolvedVocabulary(
            digest=self.words.digest,
            changes_digest=digest,
            options=spec.options,
            lang=spec.lang,
            n_words=spec.n_words or len(WORDS),
            fewest_tokens=2,
        )

    async def _chat(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        self.asked.append(request.body)
        yield self.result

    async def items(self, tool: Tool, spec: VocabularySpec = SPEC, width: int = 3, **body: Any) -> list[Any]:
        usual: dict[str, Any] = {"top": 5}
        if tool == "rewrite":
            usual = {"keep_names": True, "force": False, "candidates": 0, "temperature": 0.5, "stream": False}
        vocabulary = await self.resolve(spec, "alice")
        request = WordToolRequest(tool, {"adapter": "auto"} | usual | body, vocabulary, spec, ALICE)
        answer = self.tools.answer(request, width)
        return [item async for item in answer]

    async def one(self, tool: Tool, spec: VocabularySpec = SPEC, **body: Any) -> dict[str, Any]:
        [result] = await self.items(tool, spec, **body)
        assert isinstance(result, dict)
        return result

    async def refusal(self, tool: Tool, spec: VocabularySpec = SPEC, **body: Any) -> tuple[int, str | None, str]:
        [error] = await self.items(tool, spec, **body)
        assert isinstance(error, ApiError)
        return error.status, error.param, error.message


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_next_words_have_the_models_own_probability_and_all_else_is_the_remainder(world: World) -> None:
    result = await world.one("next", text="The", top=3)
    assert [(entry["rank"], entry["word"]) for entry in result["data"]] == [(1, "cat"), (2, "dog"), (3, "apple")]
    assert result["data"][0]["probability"] == pytest.approx(0.4, abs=0.01)
    assert np.exp(result["data"][0]["logprob"]) == pytest.approx(result["data"][0]["probability"])
    assert result["remainder"] == pytest.approx(1 - sum(entry["probability"] for entry in result["data"]))
    assert (result["vocab"]["lang"], result["usage"]["prompt_tokens"]) == ("en", 3)


async def test_blanks_at_the_end_belong_to_the_word(world: World) -> None:
    assert (await world.one("next", text="The  "))["data"] == (await world.one("next", text="The"))["data"]
    # The blank says that it is a whole word.
    assert (await world.one("next", text="an appl "))["data"]


async def test_an_empty_text_is_followed_by_words_that_begin_one(world: World) -> None:
    words = {entry["word"] for entry in (await world.one("next", text="", top=40))["data"]}
    assert {"The", "the", "Cat"} <= words


async def test_texts_that_cannot_be_followed_are_refused_by_their_name(world: World) -> None:
    assert (await world.refusal("next", text="an appl"))[:2] == (400, "text")
    status, param, message = await world.refusal("next", text="x y " * 200)
    assert (status, param) == (400, "text")
    assert "'prompt'" not in message and "the prompt" not in message


async def test_where_masks_are_xgrammars_there_are_no_tools(tmp_path: Path) -> None:
    assert (await World(tmp_path, mask_engine="xgrammar").refusal("next", text="The"))[0] == 400


async def test_other_words_are_ranked_by_the_sentence_with_them(world: World) -> None:
    text = "It was. The cat purchased it. Why?"
    start = text.index("purchased")
    result = await world.one("swap", text=text, start=start, end=start + 9)
    assert (result["word"], result["data"][0]["word"]) == ("purchased", "bought")
    assert result["data"][0]["text"] == "The cat bought it."
    scores = [entry["logprob"] for entry in result["data"]]
    assert scores == sorted(scores, reverse=True)
    assert len(result["data"]) == 5
    assert result["usage"]["prompt_tokens"] > 0


async def test_the_article_decides_which_noun_fits_and_a_word_is_not_its_own_alternative(world: World) -> None:
    result = await world.one("swap", text="It ate an orange", start=10, end=16, top=40)
    words = [entry["word"] for entry in result["data"]]
    assert words[0] == "apple"
    result = await world.one("swap", text="It ate an apple", start=10, end=15, top=40)
    assert "apple" not in [entry["word"].lower() for entry in result["data"]]


async def test_a_capital_stays_where_the_sentence_starts_and_nowhere_else(world: World) -> None:
    first = await world.one("swap", text="Kitten sat.", start=0, end=6, top=40)
    assert all(entry["word"][0].isupper() for entry in first["data"])
    inside = await world.one("swap", text="The kitten sat.", start=4, end=10, top=40)
    assert all(entry["word"].islower() for entry in inside["data"])


TEXT = "The cat sat.\n\nAlice purchased an apple. It was Bob's dog."


async def test_a_text_is_rewritten_and_what_is_listed_stays(world: World) -> None:
    result = await world.one("rewrite", text=TEXT.replace("Alice", "the and Alice"))
    assert result["text"] == "The cat sat.\n\nthe and Alice bought an apple. It was Bob's dog."
    assert result["names"] == ["Alice", "Bob"]
    [change] = result["changes"]
    assert change["from"] == "purchased" and change["to"] == "bought"
    assert TEXT.replace("Alice", "the and Alice")[change["start"] : change["end"]] == "purchased"
    assert result["coverage"]["before"] < result["coverage"]["after"] == 1
    assert not world.asked, "nothing is written where no candidate is asked for"


async def test_names_are_swapped_where_they_are_not_kept(world: World) -> None:
    result = await world.one("rewrite", text="The dog was Bob.", keep_names=False)
    assert result["names"] == [] and "Bob" not in result["text"] and result["coverage"]["after"] == 1
    left_out = SPEC.model_copy(update={"exclude_words": ("bob",)})
    result = await world.one("rewrite", left_out, text="The dog was Bob.")
    assert "Bob" not in result["text"]
    result = await world.one("rewrite", text=f"The dog was {'B' * 101}.")
    assert result["names"] == [] and result["coverage"]["after"] == 1


async def test_what_the_model_writes_is_taken_where_the_source_is_likelier_behind_it(world: World) -> None:
    result = await world.one("rewrite", text="It was gigantic.", candidates=2, seed=7, force=True)
    assert result["text"].startswith("It was ")
    [body] = world.asked
    assert (body["n"], body["seed"], body["temperature"]) == (2, 7, 0.5)
    assert "It was gigantic." in body["messages"][0]["content"]
    world.result["choices"][0]["message"]["content"] = "It bought\nit."
    assert (await world.one("rewrite", text="It was gigantic.", candidates=1))["text"] == "It bought it."


async def test_what_is_listed_is_written_again_where_that_is_asked_for(world: World) -> None:
    result = await world.one("rewrite", text="The cat sat.", candidates=1, force=True)
    assert result["text"] == "It was big."
    assert (await world.one("rewrite", text="The cat sat.", candidates=1))["text"] == "The cat sat."


async def test_what_has_been_written_is_told_with_the_next_sentence(world: World) -> None:
    await world.one("rewrite", text="The cat sat. It was gigantic.", candidates=1)
    assert "The cat sat." in world.asked[0]["messages"][0]["content"]


async def test_a_candidate_that_leaves_the_list_is_not_taken(world: World) -> None:
    world.result["choices"][0]["message"]["content"] = "It bought zebras."
    assert "zebras" not in (await world.one("rewrite", text="It was gigantic.", candidates=1))["text"]


async def test_a_model_without_a_chat_template_still_swaps_and_other_failures_are_told(world: World) -> None:
    world.result = EngineError(400, "No template.", code="no_chat_template", param="model")
    assert (await world.one("rewrite", text="It was gigantic.", candidates=1))["text"].startswith("It was ")
    world.result = EngineError(400, "Too long.", code="context_length_exceeded")
    assert (await world.refusal("rewrite", text="It was gigantic.", candidates=1))[:2] == (400, "text")
    world.result = "data: [DONE]"
    assert (await world.refusal("rewrite", text="It was gigantic.", candidates=1))[0] == 500


async def test_a_stream_has_each_part_and_then_the_whole(world: World) -> None:
    *parts, whole, done = await world.items("rewrite", text=TEXT + "\n", stream=True)
    read = [json.loads(part.removeprefix("data:")) for part in (*parts, whole)]
    assert done == "data: [DONE]\n\n"
    assert "".join(part["text"] for part in read[:-1]) == read[-1]["text"]
    assert len(parts) == 4
    assert (read[-1]["object"], read[-1]["coverage"]["after"]) == ("vocabulary.rewrite", 1)


async def test_long_sentences_and_too_much_work_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MAX_REWRITE_TOKENS", 60)
    assert (await world.refusal("rewrite", text="It was " * 300 + "gigantic."))[:2] == (400, "text")
    assert "60 tokens" in (await world.refusal("rewrite", text="It was gigantic. " * 3))[2]


async def test_a_client_that_leaves_ends_what_runs_in_the_engine(world: World) -> None:
    world.rows.is_stalled = True
    asked = asyncio.create_task(world.one("rewrite", text="It was gigantic."))
    await world.rows.stalls.wait()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert world.rows.num_ended == 1
