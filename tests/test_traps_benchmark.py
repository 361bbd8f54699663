"""The benchmark of prefix traps: what it counts, and how it reads the tokens of an answer."""

import argparse
import json
from typing import Any

import pytest

from benchmarks.quality import traps
from benchmarks.quality.prompts import languages, load_prompts
from benchmarks.quality.traps import ARMS, Step, WordCounts, count_words, figures, find_arm, load_everyday, share_kept
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body


def step(text: str | bytes, p: float = 0.5, left: float = 1.0, wanted: str = "") -> Step:
    return Step((text.encode() if isinstance(text, str) else text).hex(), p, left, wanted)


def test_a_word_is_a_trap_where_a_later_token_had_little_room() -> None:
    steps = [
        step("„Der", left=0.01),  # its first token: a list of few words, and no trap
        step(" B"),
        step("ä"),
        step("n", left=0.049),
        step(" B"),
        step("ahn", left=0.05),
        step(".", left=0.02, wanted="hof"),
        step(" Der", left=0.02, wanted="Wunsch"),  # between words nothing is cut off
        step(" B"),
        step("ahn", left=0.001),
        step(" der", left=0.4, wanted="hof"),  # after a trap: counted once
        step(b"", left=0.4, wanted=" Wunsch"),  # the end: another word was to come
    ]
    assert count_words(steps, "de") == WordCounts(num_words=6, num_traps=2, num_fragments=1)
    assert count_words([], "de") == WordCounts(0, 0, 0)


def test_a_character_of_several_tokens_belongs_to_its_word() -> None:
    assert count_words([step(b" \xc3"), step(b"\xa4n", left=0.01), step("!")], "de") == WordCounts(1, 1, 0)
    assert count_words([step(b"\xe2\x80"), step(b"\x9e", left=0.01), step("an", left=0.01)], "de") == WordCounts(
        1, 0, 0
    )


def test_a_possessive_belongs_to_its_word_and_an_article_does_not() -> None:
    steps = [step("A"), step(" cat"), step("'s", left=0.01)]
    assert count_words(steps, "en") == WordCounts(2, 1, 0)
    assert count_words([step("L'"), step("eau", left=0.01)], "fr") == WordCounts(2, 0, 0)


def test_a_step_has_what_the_list_took_of_the_likeliest() -> None:
    likeliest = [(" B", 0.6, True), (" C", 0.3, False), (" D", 0.1, True)]
    details: dict[str, Any] = {
        "bytes": [*b" C"],
        "prob": 0.3,
        "top_k": [{"bytes": [*text.encode()], "prob": p, "is_masked": taken} for text, p, taken in likeliest],
    }
    assert Step.of(details)._asdict() == {"spelled": "2043", "p": 0.3, "left": pytest.approx(0.3), "wanted": " B"}


def test_arms_are_requests_and_may_be_joined() -> None:
    joined = find_arm("rescue+prompt-words")
    assert joined.fields == {}
    assert joined.vocab == {"rescue": True, "prompt_words": True}
    assert [find_arm(name).is_free for name in ("free", "default", "beams")] == [True, False, False]
    for name in ARMS.keys() - {"prompt-words", "adapter", "free"}:
        arm = find_arm(name)
        body = chat_body(**arm.fields, vocab={"lang": "en", "n_words": 10, **(arm.vocab or {})})
        assert ChatRequestReader(SERVED).read(body).vocabulary is not None
    with pytest.raises(argparse.ArgumentTypeError, match="there is no 'beam': choose of free"):
        traps._names(list(ARMS), "default,beam+rescue")


def test_each_language_has_eight_prompts_of_its_own_with_their_nouns() -> None:
    everyday = load_everyday()
    assert list(everyday) == ["en", "de", "es", "fr", "it"]
    known = {prompt for lang in languages() for prompt in load_prompts(lang, 99)}
    for prompts in everyday.values():
        assert len(prompts) == 8
        assert not known & prompts.keys()
        assert all(share_kept(nouns, prompt) == 1 for prompt, nouns in prompts.items())


def test_nouns_count_by_their_beginnings() -> None:
    nouns = ["baker", "sea=/seas=", "cake"]
    assert share_kept(nouns, "The bakers' season, at sea.") == pytest.approx(2 / 3)
    assert share_kept(["anniversaire"], "Un gâteau d’anniversaire") == 1


ANSWER: dict[str, Any] = {
    "text": "The sea.",
    "num_answer_tokens": 10,
    "num_generated_tokens": 15,
    "started": 1.0,
    "ended": 2.0,
    "steps": [["546865", 0.5, 1.0, ""], ["2073", 0.5, 1.0, ""], ["6561", 0.25, 0.01, ""], ["2e", 1.0, 1.0, ""]],
    "block": {},
}


def test_a_row_has_the_figures_of_its_texts() -> None:
    second = ANSWER | {"text": "The sea. The sea. The sea zzyzx.", "num_generated_tokens": 25, "ended": 4.0}
    answers = [{"prompt": "p", **json.loads(json.dumps(one))} for one in (ANSWER, second)]
    row = figures(answers, "en", 1000, {"p": ["sea"]})
    assert row == ["2", "50.0", "0.0", "11.1", "0.20", "100%", "0.125", "2.00", "0.200"]
    beams = [{**one, "steps": [], "block": {"bits_per_char": 0.5}} for one in answers]
    assert figures(beams, "en", 1000, {"p": ["sea"]})[1:5] == ["–", "–", "11.1", "0.50"]
