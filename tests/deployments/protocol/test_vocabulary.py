"""What a request may say of its vocabulary."""

from typing import Any

import pytest

from deployments.contract import AUTO_ADAPTER, USUAL_OPTIONS, VocabularySpec
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.protocol.word_tools import NextWordsRequest, read_tool
from deployments.settings.limits import MAX_LIST_BYTES, MAX_PROMPT_CHARS
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.readers import read_chat, refusal
from vocab.options import ListOptions
from vocab.text.changes import ListChanges


def spec(**members: Any) -> VocabularySpec:
    vocabulary = read_chat(vocab=members).vocabulary
    assert vocabulary is not None
    return vocabulary


def test_a_list_by_name_has_all_its_words_and_the_default_options() -> None:
    assert spec(lang="es") == VocabularySpec(lang="es")
    assert spec(lang="es", words=None, unit=None, extra_words=[]) == VocabularySpec(lang="es")
    assert read_chat(vocab=None).vocabulary is None
    assert spec(lang="es").options == ListOptions(punctuation="standard", end="sentence") == USUAL_OPTIONS
    assert spec(lang="es").changes == ListChanges()
    assert spec(lang="es", n_words=1000) == VocabularySpec(lang="es", n_words=1000)


def test_without_marks_an_answer_ends_with_a_word_and_otherwise_with_a_sentence() -> None:
    assert spec(lang="es", punctuation="none").end == "word"
    assert spec(lang="es", punctuation="none", end="word").end == "word"
    assert spec(lang="es", punctuation="basic").end == "sentence"
    assert spec(lang="es", end="word").end == "word"
    flat = read_chat(vocab_lang="es", vocab_n_words=5).vocabulary
    assert flat is not None
    assert (flat.punctuation, flat.end) == ("standard", "sentence")


def test_every_option_reaches_the_specification() -> None:
    options = {"case": "listed", "numbers": True, "punctuation": "basic", "layout": "lines", "end": "sentence"}
    made = spec(lang="es", unit="lemma", safe=False, **options)
    assert (made.unit, made.safe) == ("lemma", False)
    assert made.options == ListOptions("listed", "lines", True, "basic", "sentence")


def test_a_prompt_is_the_last_user_message_as_far_as_it_is_no_pasted_text() -> None:
    def prompt(*messages: dict[str, Any], **vocab: Any) -> str | None:
        asked = read_chat(messages=list(messages), vocab={"lang": "en", **vocab}).vocabulary
        assert asked is not None
        return asked.prompt

    first, answer = {"role": "user", "content": "A map."}, {"role": "assistant", "content": "A dog."}
    parts = {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "wolf."}]}
    assert prompt(first, answer, prompt_words=True) == "A map."
    assert prompt(first, answer, parts, prompt_words=True) == "A\nwolf."
    assert prompt({**answer, "role": "system"}, prompt_words=True) == ""
    assert prompt({**first, "content": "a" * (MAX_PROMPT_CHARS + 1)}, prompt_words=True) == ""
    assert prompt(first) is prompt(first, prompt_words=False) is None


def test_a_segmentation_reaches_the_specification_of_a_language_without_spaces() -> None:
    assert spec(lang="zh").segmentation == "longest"
    assert spec(words=["中"], lang="ja_n5", segmentation="any").options.segmentation == "any"
    assert spec(level="top-1000", lang="zh-TW", segmentation="any").options.segmentation == "any"


def test_the_possessive_is_asked_for_or_left_to_the_list() -> None:
    asked = {True: spec(lang="en", possessive=True), False: spec(lang="es", possessive=False), None: spec(lang="en")}
    assert {one: made.options.possessive for one, made in asked.items()} == {one: one for one in asked}
    assert spec(words=["cat"], lang="en-GB", possessive=True).options.possessive is True


def test_a_list_of_ones_own_needs_no_language() -> None:
    made = spec(words=["sol", "mar"], n_words=1)
    assert (made.words, made.lang, made.n_words) == (("sol", "mar"), None, 1)
    assert spec(words=["l'", "eau"], lang="fr").lang == "fr"


def test_words_arrive_clean() -> None:
    made = spec(words=[" cafe\u0301 ", "a  b", "café"], extra_words=["Ana", "Ana"], exclude_words=["no"])
    assert made.words == ("café", "a b")
    assert made.changes == ListChanges(("Ana",), ("no",))
    assert len({spec(words=["a", "b"], end="sentence"), spec(end="sentence", words=["a", "b "])}) == 1


@pytest.mark.parametrize("member", ["words", "extra_words", "exclude_words"])
def test_an_entry_that_cannot_be_a_word_is_named(member: str) -> None:
    entries: list[Any] = [
        *("", None, 5, True, ["a"], "x" * 101, " ", "a\nb", "a\x7f", "\u200ba", "a\u2028b", "\u202ea")
    ]
    for entry in entries:
        error = refusal(vocab={"lang": "es", member: ["sol", "mar", entry]})
        assert (error.status, error.param) == (400, f"vocab.{member}[2]")
        assert len(error.message) < 300


def test_a_list_is_bounded_in_bytes_too() -> None:
    words = [f"ñ{'a' * 98}{number:05}"[:100] for number in range(MAX_LIST_BYTES // 101)]
    assert spec(words=words)
    assert "1048576 bytes together" in refusal(vocab={"words": [*words, *words[:200]]}).message


def test_a_level_is_a_number_of_words_or_a_list_whose_language_may_be_left_out() -> None:
    assert spec(lang="es", level="top-500") == spec(lang="es", n_words=500)
    asked = spec(level="ngsl-2")
    assert (asked.lang, asked.level, asked.n_words) == ("en", "ngsl-2", None)


@pytest.mark.parametrize(
    ("member", "adapter"),
    [({}, AUTO_ADAPTER), ({"adapter": "auto"}, AUTO_ADAPTER), ({"adapter": "b"}, "b"), ({"adapter": None}, None)],
)
def test_null_asks_for_no_adapter_and_a_missing_member_for_one_that_fits(member: Any, adapter: str | None) -> None:
    served = ServedModel(MODEL, LIMITS, ("a", "b"))
    fields: dict[str, Any] = {"vocab": {"lang": "en", "n_words": 500, **member}}
    assert ChatRequestReader(served).read(chat_body(**fields)).decoding.adapter == adapter
    assert read_tool(NextWordsRequest, {"text": "a", **fields}, served=served).body["adapter"] == adapter
