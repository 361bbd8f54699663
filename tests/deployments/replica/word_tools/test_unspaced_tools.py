"""The word tools on Chinese, whose words a dictionary finds: over rows and scores of a model made of a table."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ray.serve.llm.deployment import LLMServer

from deployments.contract import Answer, Caller, ResolvedVocabulary, TextRequest, Tool, VocabularySpec, WordToolRequest
from deployments.errors import ApiError, EngineError
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine.loaded_adapters import EngineAdapters, LoadedAdapters
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.word_tools.rewrite import changes_between
from deployments.replica.word_tools.tool_answerer import WordTools
from deployments.settings.service import Settings
from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.dictionary_trie import build_segmented
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import EngineCache
from vocab.text.segmented.segmenter import ListSegments

WORDS = ("我们", "喜欢", "学校", "公园", "大学", "中国", "去", "在", "的", "人", "国", "猫")
CHARS = sorted({char for word in (*WORDS, "看小花园动物同义词是") for char in word})
FACTS = toy_tokenizer([*CHARS, "学校", "的人", "。", "“", "”"])
SPELLER = toy_speller(FACTS)
SPEC = VocabularySpec(lang="zh", n_words=len(WORDS))
WORD_LIST = WordList("zh", WORDS, "file")

LIKELY = {
    "我们去": {"学校": 0.5, "公": 0.2, "的人": 0.1},
    "我们去公": {"园": 0.9},
    "同义词是“": {"公": 0.5, "大": 0.3, "学校": 0.1},
    "同义词是“公": {"园": 0.9},
    "同义词是“大": {"学": 0.9},
}
"""By the end of a text, what may come next; "。" has nearly all of what is left."""


class Rows:
    """In place of ``RowAnswerer``: a text is worth most with the university in it."""

    max_scored_tokens = 400

    async def read(self, texts: Sequence[str], body: dict[str, Any], caller: Caller) -> list[list[int]]:
        return [list(tokens or ()) for tokens in SPELLER.spell(texts)]

    def check_length(self, num_tokens: int, param: str) -> None:
        """Every text is short enough."""

    async def rows(self, prompts: Sequence[list[int]], first: int, caller: Caller, width: int) -> list[Any]:
        return [self._row(text_of(prompt)) for prompt in prompts]

    def _row(self, text: str) -> Any:
        longest = max((end for end in LIKELY if text.endswith(end)), key=len, default="")
        row = np.full(len(FACTS), 1e-6)
        for piece, share in LIKELY.get(longest, {}).items():
            row[FACTS.token_bytes.index(piece.encode())] += share
        row[FACTS.token_bytes.index("。".encode())] += 1 - row.sum()
        return np.log(row).astype(np.float32)

    async def scores(
        self, pairs: Sequence[tuple[list[int], list[int]]], name: str, caller: Caller, width: int
    ) -> list[list[float]]:
        return [[10.0 if "大学" in text_of([*prompt, *scored]) else -1.0] for prompt, scored in pairs]


def text_of(tokens: Sequence[int]) -> str:
    return b"".join(FACTS.token_bytes[token] for token in tokens).decode(errors="replace")


class World:
    def __init__(self, folder: Path) -> None:
        store = ArtefactStore(folder, 2**30)
        self.words = build_segmented(WORD_LIST, SPELLER)
        store.save(self.words)

        async def fetch(digest: str) -> bytes:
            raise AssertionError("all is here")

        async def chat(request: TextRequest) -> AsyncGenerator[Answer, None]:
            yield EngineError(400, "No template.", code="no_chat_template", param="model")

        self.tools = WordTools(
            Settings.load({"secret_token": "k"}, {}),
            NodeLists(store, fetch, "automaton"),
            EngineCache(folder, FACTS),
            FACTS,
            cast("RowAnswerer", Rows()),
            chat,
            self.resolve,
            LoadedAdapters(cast("LLMServer", None), EngineAdapters("google/gemma-3-27b-it", {})),
        )

    async def resolve(self, spec: VocabularySpec, owner: str = "alice") -> ResolvedVocabulary:
        return ResolvedVocabulary(
            digest=self.words.digest,
            changes_digest=None,
            options=spec.options,
            lang=spec.lang,
            n_words=spec.n_words or len(WORDS),
            fewest_tokens=2,
        )

    async def one(self, tool: Tool, **body: Any) -> Any:
        usual = {"adapter": "auto", "top": 5, "keep_names": True, "force": False, "candidates": 1, "stream": False}
        vocabulary = await self.resolve(SPEC)
        answer = self.tools.answer(WordToolRequest(tool, usual | body, vocabulary, SPEC, Caller("alice", "req-1")), 3)
        [result] = [item async for item in answer if isinstance(item, ApiError) or "usage" in item]
        return result


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("lists"))


async def test_next_words_are_what_a_longest_match_cuts_off(world: World) -> None:
    result = await world.one("next", text="我们去")
    found = {entry["word"]: entry["probability"] for entry in result["data"]}
    # A token may have more than the word.
    assert list(found)[:3] == ["学校", "公园", "的"]
    assert found["学校"] == pytest.approx(0.5, abs=0.01)
    assert found["公园"] == pytest.approx(0.2 * 0.9, abs=0.01)
    assert found["的"] == pytest.approx(0.1, abs=0.01)


async def test_other_words_stand_as_words_in_the_place_of_one(world: World) -> None:
    text = "我们去动物园。"
    result = await world.one("swap", text=text, start=3, end=6)
    words = [entry["word"] for entry in result["data"]]
    assert result["word"] == "动物园" and words[0] == "大学"
    assert result["data"][0]["text"] == "我们去大学。"
    segments = ListSegments(WORD_LIST, len(WORDS), "longest")
    assert all(segments.has_word("我们去", word, "。") for word in words)


async def test_what_is_no_word_of_the_dictionary_is_not_swapped(world: World) -> None:
    error = await world.one("swap", text="我们去动物园。", start=3, end=5)
    assert isinstance(error, ApiError)
    assert (error.status, error.param) == (400, "start")
    assert "the nearest is '动物园', from 3 to 6" in error.message


async def test_a_text_is_rewritten_without_blanks_between_its_sentences(world: World) -> None:
    result = await world.one("rewrite", text="我们去学校。我们喜欢动物园。")
    assert result["text"] == "我们去学校。我们喜欢大学。"
    assert result["changes"] == [{"start": 10, "end": 13, "from": "动物园", "to": "大学"}]
    assert result["coverage"]["after"] == 1


def test_differences_are_those_of_words() -> None:
    segments = ListSegments(WORD_LIST, len(WORDS), "longest")
    [change] = changes_between("我们喜欢学校。", "我们喜欢大学。", segments)
    assert change == (4, 6, "学校", "大学")
    assert not segments.has_word("中", "国", "人")
