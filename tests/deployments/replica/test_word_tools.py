"""The word tools over an engine whose rows are a table and whose scores are what a test wants."""

import asyncio
from typing import Any

import numpy as np
import pytest

from deployments.contract import VocabularySpec
from deployments.errors import ApiError
from deployments.replica.word_tools import rewrite
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import ReplicaWorld, read, refusal
from vocab.lists.wordlists import WordList
from vocab.options import DEFAULT_OPTIONS
from vocab.text.checker import TextChecker

WORDS = (
    "the", "a", "an", "cat", "dog", "apple", "ate", "eat", "eats", "big", "it", "was", "buy", "bought", "and", "sat",
)  # fmt: skip
LIKELY = {
    "The": {" cat": 0.4, " dog": 0.3, " apple": 0.1},
    'means the same as "': {"bought": 0.5, "buy": 0.2, "dog": 0.1},
    "我们去": {"学校": 0.5, "公园": 0.2, "的": 0.1},
    "同义词是“": {"公园": 0.5, "大学": 0.3, "学校": 0.1},
}
"""By the end of a text, what may come next; everything else shares what is left."""

WORTH = {"bought": 50.0, "Dog": 3.0, "dog": 2.0, "It ate an apple": 90.0, "It bought it": 60.0, "大学": 10.0}
"""Log-probability that a text has for a part of it."""

CHINESE = ("我们", "喜欢", "学校", "公园", "大学", "中国", "去", "在", "的", "人", "国", "猫")


class Tools:
    """A replica with lists of these words, whose engine finds next words in the table."""

    def __init__(self, world: ReplicaWorld) -> None:
        self.world = world
        world.add_list(WORDS, "en-tools")
        world.add_list(CHINESE, "zh")
        self.spec = VocabularySpec(lang="en-tools", n_words=len(WORDS))
        world.engine.table = self._row
        world.engine.worth = lambda text: sum(value for part, value in WORTH.items() if part in text)

    def _row(self, tokens: list[int]) -> Any:
        token_bytes = self.world.speller.facts.token_bytes
        written, text = b"".join(token_bytes[token] for token in tokens), self.world.tokenizer.decode(tokens)
        likely = dict[int, float]()
        for end, after in LIKELY.items():
            for piece, share in after.items():
                begun = end.encode()
                for number, token in enumerate(self._tokens(piece)):
                    if written.endswith(begun):
                        likely[token] = likely.get(token, 0) + (0.999 if number else share)
                    begun += token_bytes[token]
        row = np.full(len(token_bytes), (1 - sum(likely.values())) / len(token_bytes))
        is_word = text.endswith((*CHINESE, *(f" {word}" for word in WORDS))) or text.rpartition('"')[2] in WORDS
        if is_word and not likely:
            row[:] = 1e-9
            likely = dict.fromkeys(self._tokens("。" if text.endswith(CHINESE) else "."), 1 - 1e-9 * len(row))
        for token, share in likely.items():
            row[token] += share
        return np.log(row / row.sum())

    def _tokens(self, piece: str) -> list[int]:
        tokens: list[int] = self.world.tokenizer.encode(piece, add_special_tokens=False)
        return tokens

    async def items(self, tool: Any, spec: VocabularySpec | None = None, **body: Any) -> list[Any]:
        usual: dict[str, Any] = {"top": 5}
        if tool == "rewrite":
            usual = {"keep_names": True, "force": False, "candidates": 0, "temperature": 0.5, "stream": False}
        return await self.world.tool(tool, spec or self.spec, **{"adapter": "auto"} | usual | body)

    async def one(self, tool: Any, spec: VocabularySpec | None = None, **body: Any) -> dict[str, Any]:
        [result] = await self.items(tool, spec, **body)
        assert isinstance(result, dict), result
        return result

    async def refusal(self, tool: Any, **body: Any) -> ApiError:
        return refusal(await self.items(tool, **body))

    @property
    def chats(self) -> list[Any]:
        """The requests for candidates: prompt and parameters."""
        asked = [(tokens, params) for tokens, params, *_ in self.world.engine.requests if params.max_tokens > 1]
        return [(self.world.tokenizer.decode(tokens), params) for tokens, params in asked]


@pytest.fixture
def tools(world: ReplicaWorld) -> Tools:
    return Tools(world)


async def test_next_words_have_the_models_own_probability_and_all_else_is_the_remainder(tools: Tools) -> None:
    result = await tools.one("next", text="The", top=3)
    assert [(entry["rank"], entry["word"]) for entry in result["data"]] == [(1, "cat"), (2, "dog"), (3, "apple")]
    assert result["data"][0]["probability"] == pytest.approx(0.4, abs=0.01)
    assert np.exp(result["data"][0]["logprob"]) == pytest.approx(result["data"][0]["probability"])
    assert result["remainder"] == pytest.approx(1 - sum(entry["probability"] for entry in result["data"]))
    assert (result["object"], result["vocab"]["lang"], result["usage"]["prompt_tokens"]) == (
        "vocabulary.next",
        "en-tools",
        1,
    )


async def test_blanks_at_the_end_belong_to_the_word_and_an_empty_text_is_followed_by_words_that_begin_one(
    tools: Tools,
) -> None:
    assert (await tools.one("next", text="The  "))["data"] == (await tools.one("next", text="The"))["data"]
    # The blank says that it is a whole word.
    assert (await tools.one("next", text="an appl "))["data"]
    words = {entry["word"] for entry in (await tools.one("next", text="", top=40))["data"]}
    assert {"The", "the", "Cat"} <= words


async def test_texts_that_cannot_be_followed_are_refused_by_their_name(tools: Tools, xgrammar: ReplicaWorld) -> None:
    error = await tools.refusal("next", text="an appl")
    assert (error.status, error.param) == (400, "text")
    error = await tools.refusal("next", text="x y " * 600)
    assert (error.status, error.param) == (400, "text")
    assert "'prompt'" not in error.message and "the prompt" not in error.message
    assert refusal(await xgrammar.tool("next", text="The", top=1)).param == "vocab"


async def test_other_words_are_ranked_by_the_sentence_with_them(tools: Tools) -> None:
    text = "It was. The cat purchased it. Why?"
    start = text.index("purchased")
    result = await tools.one("swap", text=text, start=start, end=start + 9)
    assert (result["word"], result["data"][0]["word"]) == ("purchased", "bought")
    assert result["data"][0]["text"] == "The cat bought it."
    scores = [entry["logprob"] for entry in result["data"]]
    assert scores == sorted(scores, reverse=True)
    assert len(result["data"]) == 5
    assert result["usage"]["prompt_tokens"] > 0


async def test_the_article_decides_which_noun_fits_and_a_word_is_not_its_own_alternative(tools: Tools) -> None:
    result = await tools.one("swap", text="It ate an orange", start=10, end=16, top=40)
    assert result["data"][0]["word"] == "apple"
    result = await tools.one("swap", text="It ate an apple", start=10, end=15, top=40)
    assert "apple" not in [entry["word"].lower() for entry in result["data"]]


async def test_a_capital_stays_where_the_sentence_starts_and_nowhere_else(tools: Tools) -> None:
    first = await tools.one("swap", text="Kitten sat.", start=0, end=6, top=40)
    assert all(entry["word"][0].isupper() for entry in first["data"])
    inside = await tools.one("swap", text="The kitten sat.", start=4, end=10, top=40)
    assert all(entry["word"].islower() for entry in inside["data"])


TEXT = "The cat sat.\n\nthe and Alice purchased an apple. It was Bob's dog."


async def test_a_text_is_rewritten_and_what_is_listed_stays(tools: Tools) -> None:
    result = await tools.one("rewrite", tools.spec.model_copy(update={"possessive": True}), text=TEXT)
    assert result["text"] == TEXT.replace("purchased", "bought")
    assert result["names"] == ["Alice", "Bob"]
    [change] = result["changes"]
    assert (change["from"], change["to"]) == ("purchased", "bought")
    assert TEXT[change["start"] : change["end"]] == "purchased"
    assert result["coverage"]["before"] < result["coverage"]["after"] == 1
    assert not tools.chats, "nothing is written where no candidate is asked for"


async def test_names_are_swapped_where_they_are_not_kept(tools: Tools) -> None:
    left_out = tools.spec.model_copy(update={"exclude_words": ("bob",)})
    for name, spec, fields in (("Bob", None, {"keep_names": False}), ("Bob", left_out, {}), ("B" * 101, None, {})):
        result = await tools.one("rewrite", spec, text=f"The dog was {name}.", **fields)
        assert name not in result["text"]
        assert (result["names"], result["coverage"]["after"]) == ([], 1)


async def test_what_the_model_writes_is_taken_where_the_source_is_likelier_behind_it(tools: Tools) -> None:
    tools.world.engine.said = [Said(("It was ", "big."))]
    result = await tools.one("rewrite", text="It was gigantic.", candidates=2, seed=7, force=True)
    assert result["text"].startswith("It was ")
    [(prompt, params)] = tools.chats
    assert (params.n, params.seed, params.temperature) == (2, 7, 0.5)
    assert "It was gigantic." in prompt
    tools.world.engine.said = [Said(("It bought it.",))]
    assert (await tools.one("rewrite", text="It was gigantic.", candidates=1))["text"] == "It bought it."


async def test_what_is_listed_is_written_again_where_that_is_asked_for_and_told_with_the_next_sentence(
    tools: Tools,
) -> None:
    tools.world.engine.said = [Said(("It was big.",))]
    assert (await tools.one("rewrite", text="The cat sat.", candidates=1, force=True))["text"] == "It was big."
    assert (await tools.one("rewrite", text="The cat sat.", candidates=1))["text"] == "The cat sat."
    await tools.one("rewrite", text="The cat sat. It was gigantic.", candidates=1)
    assert "The cat sat." in tools.chats[-1][0]


async def test_a_model_without_a_chat_template_still_swaps_and_other_failures_are_told(
    mute: ReplicaWorld, small: ReplicaWorld, tools: Tools
) -> None:
    without = Tools(mute)
    assert (await without.one("rewrite", text="It was gigantic.", candidates=1))["text"].startswith("It was ")
    too_long = await Tools(small).refusal("rewrite", text="It was gigantic" + " and big" * 8 + ".", candidates=1)
    assert (too_long.status, too_long.param) == (400, "text")
    tools.world.engine.said = [Said(("It bought zebras.",))]
    assert (await tools.refusal("rewrite", text="It was gigantic.", candidates=1)).code == "unlisted_text"


async def test_a_stream_has_each_part_and_then_the_whole(tools: Tools) -> None:
    items = await tools.items("rewrite", text=TEXT + "\n", stream=True)
    *parts, whole = read(items)[0]
    assert items[-1] == "data: [DONE]\n\n"
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert len(parts) == 4
    assert (whole["object"], whole["coverage"]["after"]) == ("vocabulary.rewrite", 1)


async def test_long_sentences_and_too_much_work_are_refused(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MAX_REWRITE_TOKENS", 60)
    error = await tools.refusal("rewrite", text="It was " * 300 + "gigantic.")
    assert (error.status, error.param) == (400, "text")
    assert "60 tokens" in (await tools.refusal("rewrite", text="It was gigantic. " * 3)).message


async def test_a_client_that_leaves_ends_what_runs_in_the_engine(tools: Tools) -> None:
    tools.world.engine.stalls = True
    asked = asyncio.create_task(tools.one("rewrite", text="It was gigantic."))
    while not tools.world.engine.num_running:  # noqa: ASYNC110 - until it is there
        await asyncio.sleep(0.001)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert tools.world.engine.num_running == 0


@pytest.fixture
def chinese(tools: Tools) -> Tools:
    """The same in Chinese, whose words a dictionary finds."""
    tools.spec = VocabularySpec(lang="zh", n_words=len(CHINESE))
    return tools


async def test_next_words_are_what_a_longest_match_cuts_off(chinese: Tools) -> None:
    result = await chinese.one("next", text="我们去", top=3)
    found = {entry["word"]: entry["probability"] for entry in result["data"]}
    assert found == pytest.approx({"学校": 0.5, "公园": 0.2, "的": 0.1}, abs=0.01)


async def test_other_words_stand_as_words_in_the_place_of_one(chinese: Tools) -> None:
    result = await chinese.one("swap", text="我们去动物园。", start=3, end=6)
    assert (result["word"], result["data"][0]["word"]) == ("动物园", "大学")
    assert result["data"][0]["text"] == "我们去大学。"
    checker = TextChecker(WordList("zh", CHINESE, "file"), DEFAULT_OPTIONS, len(CHINESE))
    for entry in result["data"]:
        report = checker.check(entry["text"])
        assert entry["word"] in map(report.spelling, report.words)


async def test_what_is_no_word_of_the_dictionary_is_not_swapped(chinese: Tools) -> None:
    error = await chinese.refusal("swap", text="我们去动物园。", start=3, end=5)
    assert (error.status, error.param) == (400, "start")
    assert "the nearest is '动物园', from 3 to 6" in error.message


async def test_a_text_is_rewritten_without_blanks_between_its_sentences(chinese: Tools) -> None:
    result = await chinese.one("rewrite", text="我们去学校。我们喜欢动物园。")
    assert result["text"] == "我们去学校。我们喜欢大学。"
    assert result["changes"] == [{"start": 10, "end": 13, "from": "动物园", "to": "大学"}]
    assert result["coverage"]["after"] == 1
