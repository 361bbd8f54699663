from typing import Any

import pytest

from deployments.contract import AUTO_ADAPTER, USUAL_OPTIONS, VocabularySpec
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.protocol.word_tools import NextWordsRequest, read_tool
from deployments.settings.limits import MAX_LIST_BYTES, MAX_PROMPT_CHARS
from tests.deployments.front import LIMITS, MODEL, chat_body
from tests.deployments.protocol.readers import read_chat, refusal
from vocab.options import ListOptions


def spec(**members: Any) -> VocabularySpec:
    vocabulary = read_chat(vocab=members).vocabulary
    assert vocabulary is not None
    return vocabulary


OPTIONS = {"case": "listed", "numbers": True, "punctuation": "basic", "layout": "lines", "end": "sentence"}
SPECIFICATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"lang": "es", "words": None, "unit": None, "extra_words": []}, {"lang": "es"}),
    *(
        (members, members)
        for members in (
            {"lang": "es"},
            {"lang": "es", "n_words": 1000},
            {"lang": "es", "unit": "lemma", "safe": False, **OPTIONS},
            {"lang": "es", "punctuation": "none", "end": "word"},
            {"lang": "es", "end": "word"},
            {"lang": "es", "possessive": False},
            {"lang": "en", "possessive": True},
            {"words": ("cat",), "lang": "en-GB", "possessive": True},
            {"words": ("sol", "mar"), "n_words": 1},
            {"words": ("l'", "eau"), "lang": "fr"},
            {"words": ("中",), "lang": "ja_n5", "segmentation": "any"},
        )
    ),
    ({"lang": "es", "punctuation": "none"}, {"lang": "es", "punctuation": "none", "end": "word"}),
    ({"lang": "es", "punctuation": "basic"}, {"lang": "es", "punctuation": "basic", "end": "sentence"}),
    # A level is a number of words, or a list whose language may be left out.
    ({"lang": "es", "level": "top-500"}, {"lang": "es", "n_words": 500}),
    ({"level": "ngsl-2"}, {"lang": "en", "level": "ngsl-2"}),
    (
        {"level": "top-1000", "lang": "zh-TW", "segmentation": "any"},
        {"lang": "zh-TW", "n_words": 1000, "segmentation": "any"},
    ),
    # Words arrive clean.
    (
        {"words": [" cafe\u0301 ", "a  b", "café"], "extra_words": ["Ana", "Ana"], "exclude_words": ["no"]},
        {"words": ("café", "a b"), "extra_words": ("Ana",), "exclude_words": ("no",)},
    ),
]
"""The members of ``vocab``, and what they become."""


def test_every_member_reaches_the_specification() -> None:
    for members, expected in SPECIFICATIONS:
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in members.items()}
        assert spec(**given) == VocabularySpec(**expected), members
    assert read_chat(vocab=None).vocabulary is None
    assert read_chat(vocab_lang="es", vocab_n_words=5).vocabulary == VocabularySpec(lang="es", n_words=5)
    assert spec(lang="es").options == ListOptions(punctuation="standard", end="sentence") == USUAL_OPTIONS
    assert spec(lang="es", **OPTIONS).options == ListOptions("listed", "lines", True, "basic", "sentence")


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


@pytest.mark.fault(27)
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
    assert "1048576 bytes together" in refusal(vocab={"words": [*words, *words[:50]]}).message


@pytest.mark.parametrize(
    ("member", "adapter"),
    [({}, AUTO_ADAPTER), ({"adapter": "auto"}, AUTO_ADAPTER), ({"adapter": "b"}, "b"), ({"adapter": None}, None)],
)
def test_null_asks_for_no_adapter_and_a_missing_member_for_one_that_fits(member: Any, adapter: str | None) -> None:
    served = ServedModel(MODEL, LIMITS, ("a", "b"))
    fields: dict[str, Any] = {"vocab": {"lang": "en", "n_words": 500, **member}}
    assert ChatRequestReader(served).read(chat_body(**fields)).decoding.adapter == adapter
    assert read_tool(NextWordsRequest, {"text": "a", **fields}, served=served).body["adapter"] == adapter
