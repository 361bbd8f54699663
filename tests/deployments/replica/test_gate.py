"""What leaves of what an engine writes in a list: whole words and sentences, at once and in the parts of a stream."""

import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.contract import Decoding, ResolvedVocabulary
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import ReplicaWorld, block, parts, read, refusal
from vocab.lists.wordlists import WordList
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.reader import TextReader

WORDS = ("the", "cat", "sat", "a", "c", "on", "in front of", "mat", "hat", "at")
LISTS = {"en": WORDS, "en-names": ("the", "Dr. Ana", "sat"), "zh": ("我们", "去", "中", "中国人")}
SENTENCES = ListOptions(end="sentence")
FULL_SENTENCES = ListOptions(punctuation="full", end="sentence")
LINES = ListOptions(layout="lines", punctuation="none")
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@cache
def listed(world: ReplicaWorld, options: ListOptions, lang: str) -> ResolvedVocabulary:
    return world.add_list(LISTS[lang], lang, options)


class Gate(NamedTuple):
    """A list in a replica whose engine says what a test wants."""

    world: ReplicaWorld

    async def ask(
        self, *said: Said, options: ListOptions = DEFAULT_OPTIONS, lang: str = "en", **fields: Any
    ) -> list[Any]:
        self.world.engine.said = said
        stops = [one.stop_reason for one in said if one.stop_reason is not None]
        asked: dict[str, Any] = {"n": len(said), **({"stop": stops} if stops else {}), "max_tokens": 500, **fields}
        return await self.world.ask(listed(self.world, options, lang), Decoding(no_repeat_ngram_size=0), **asked)

    async def streamed(self, *texts: str, stopped: str | None = None, finish: str = "stop", **fields: Any) -> list[str]:
        """The parts that a text is sent in; ``stopped`` is the stop string that ended it."""
        return parts(await self.ask(Said(texts, finish, stopped), stream=True, **fields))


@pytest.fixture
def gate(world: ReplicaWorld) -> Gate:
    """One whose texts nothing cuts but a stop string."""
    return Gate(world)


@pytest.fixture
def cutting(xgrammar: ReplicaWorld) -> Gate:
    """One whose texts ``max_tokens`` may cut too."""
    return Gate(xgrammar)


STOPPED = (
    ("The cat sat on the c", "at", "The cat sat on the"),
    ("The cat sat on the ", "mat", "The cat sat on the"),
    ("The cat sat", ".", "The cat sat"),
    ("The cat sat", " on", "The cat sat"),
    ("The cat. The ", "cat", "The cat. The"),
    ("Th", "e", ""),
    ("", "The", ""),
)
STOPPED_IN_SENTENCES = (
    ("The cat sat", ".", "The cat sat"),
    ("The cat sat. The hat", ",", "The cat sat. The hat"),
    ("The cat sat on", " the", "The cat sat on"),
    ("The cat sat on the c", "at", "The cat sat on the"),
    ("“The cat", ",” sat", "“The cat"),
    ("The cat sat. “The hat on ", "the", "The cat sat. “The hat on"),
    ("The cat sat, “", "The", "The cat sat,"),
    ("The cat’", "s", "The"),
)
STOP_IN_TEXT = (
    ("The cat sat.", ".", "The cat sat."),
    ("The cat sat. ", ". ", "The cat sat. "),
    ("The cat sat.\n", "\n", "The cat sat.\n"),
    ("The cat sat,", ",", "The cat sat,"),
    ("The cat “", "“", "The cat “"),
    ("The cat - ", " - ", "The cat - "),
    ("The cat sat on the", " the", "The cat sat on the"),
    # Also where the model went on: it is a word of the list.
    ("The cat sat on a c", "c", "The cat sat on a c"),
    ("The cat sat on a ma", "ma", "The cat sat on a"),
    ("The cat’", "’", "The"),
)
"""A text, the stop string that ended it, and what is kept."""


async def test_no_part_of_a_word_is_kept_at_a_stop_string_and_a_stream_says_the_same(gate: Gate) -> None:
    faults = []
    cases = [(*case, ListOptions(), False) for case in STOPPED]
    cases += [(*case, SENTENCES, False) for case in STOPPED_IN_SENTENCES]
    cases += [(*case, SENTENCES, True) for case in STOP_IN_TEXT]
    for text, stop, kept, options, in_text in cases:
        for stream in (False, True):
            said = Said((text[:5], text[5:]), "stop", stop)
            items = await gate.ask(said, options=options, stream=stream, include_stop_str_in_output=in_text)
            found, number = "".join(parts(items)), block(items)["num_words"]
            if (found, number) != (kept, len(re.findall(r"\w+", kept))):
                faults.append((text, stop, found, number, stream))
    assert not faults


async def test_a_sentence_that_nothing_ended_is_trimmed_where_a_stop_string_may_come(gate: Gate) -> None:
    for reason in ("stop", "length"):
        said = Said(("The cat sat. The hat",), reason)
        assert parts(await gate.ask(said, options=SENTENCES, stop=["x"])) == ["The cat sat."]


async def test_a_text_of_whole_sentences_that_may_be_cut_is_cut_to_whole_sentences(cutting: Gate) -> None:
    for stream in (False, True):
        items = await cutting.ask(Said(("The cat ", "sat. The", " cat"), "length"), options=SENTENCES, stream=stream)
        assert "".join(parts(items)) == "The cat sat."
        assert block(items)["num_words"] == 3


async def test_logprobs_are_those_of_the_text_that_stays(gate: Gate) -> None:
    def tokens(items: list[Any]) -> list[str]:
        choices = [choice for one in read(items)[0] for choice in one["choices"] if choice["logprobs"]]
        return [entry["token"] for choice in choices for entry in choice["logprobs"]["content"]]

    for stream in (False, True):
        said = Said(("The", " cat", " c"), "stop", "at")
        assert tokens(await gate.ask(said, stream=stream, logprobs=True)) == ["The", " cat"]
        # Of an answer that nothing cut, that of the token which ended it stays too.
        assert len(tokens(await gate.ask(Said(("The", " cat", "")), stream=stream, logprobs=True))) == 3


@pytest.mark.parametrize(
    ("text", "options"),
    [("The dog sat.", None), ("The ca", None), ("<|im_end|>", None), ("The cat", SENTENCES)],
    ids=str,
)
async def test_an_engine_that_leaves_the_list_gives_no_answer(
    gate: Gate, text: str, options: ListOptions | None
) -> None:
    said = Said((text,), "length")
    error = refusal(await gate.ask(said, options=options or ListOptions()))
    assert (error.status, error.code) == (500, "unlisted_text")
    assert text not in str(error)
    *sent, last = await gate.ask(said, options=options or ListOptions(), stream=True)
    assert last.code == "unlisted_text"
    assert not any('finish_reason":"stop' in item or "[DONE]" in item for item in sent)


async def test_a_stream_breaks_off_where_no_text_goes_on(gate: Gate) -> None:
    items = await gate.ask(Said(("The cat s", *["xyzxyz"] * 20)), stream=True)
    assert (parts(items), items[-1].code) == (["The cat "], "unlisted_text")


STREAMS: tuple[tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]], ...] = (
    (("The c", "at", " sat, a", "."), ("The ", "cat sat, ", "a."), {}),
    (("The cat sat in", " front", " of", " the mat"), ("The cat sat", " in front of the mat"), {"stop": ["x"]}),
    (("The c", "at", " s", "a"), ("The", " cat"), {"stopped": "t"}),
    (
        ("The Dr. Ana", " sat. The", " the sat", " the"),
        ("The", " Dr. Ana sat.", " The the", " sat the"),
        {"stop": ["x"], "lang": "en-names"},
    ),
    # Behind what the client wrote, too, it is read on from the last sentence.
    (
        (" sat. ", "The cat", " sat. ", "The hat", " sat"),
        (" sat.", " The", " cat sat.", " The", " hat sat"),
        {
            "stop": ["x"],
            "continue_final_message": True,
            "add_generation_prompt": False,
            "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Zoe"}],
        },
    ),
    (
        ("The cat: “The", " hat sat. The", " mat sat! A", " cat", " sat.” The", " c"),
        ("The cat:", " “The hat sat.", " The mat sat!", " A", " cat sat.”", " The"),
        {"stopped": "at", "options": SENTENCES},
    ),
    (("我们去", "中"), ("我们", "去"), {"stopped": "国", "lang": "zh"}),
    (("我们去中国",), ("我们去",), {"stopped": "国", "lang": "zh", "include_stop_str_in_output": True}),
)
"""Parts that an engine writes, those that are sent, and what was asked for."""


async def test_a_word_is_sent_when_it_is_known_to_be_whole(gate: Gate) -> None:
    faults = []
    for written, expected, asked in STREAMS:
        found = await gate.streamed(*written, **asked)
        if found != list(expected):
            faults.append((written, found))
    assert not faults


async def test_a_sentence_or_quotation_is_held_until_it_is_whole(cutting: Gate) -> None:
    sentences = ("The cat", " sat. The", " hat! A", " mat", '." c', "at")
    found = await cutting.streamed(*sentences, finish="length", options=FULL_SENTENCES)
    assert found == ["The cat sat.", " The hat!", ' A mat."']
    quotation = ("The cat. “The", " cat sat. The", " hat!", " A mat", ".” A hat. (A", " mat.", " The")
    found = await cutting.streamed(*quotation, finish="length", options=SENTENCES)
    assert found == ["The cat.", " “The cat sat. The hat! A mat.” A hat."]


async def test_the_block_adds_up_the_words_of_all_choices_and_comes_with_the_usage(gate: Gate) -> None:
    said = Said(("The cat.",)), Said(("The hat", " sat on the mat."))
    usage = {"stream_options": {"include_usage": True}}
    asked: tuple[dict[str, Any], ...] = ({}, {"stream": True}, {"stream": True, **usage})
    for fields in asked:
        items = await gate.ask(*said, **fields)
        found = block(items)
        assert (found["num_words"], found["num_distinct_words"], found["max_rank"]) == (8, 5, 9)
    assert read(items)[0][-1]["usage"]["completion_tokens"] > 0


async def test_the_first_word_is_sent_as_soon_as_it_is_listed_and_others_once_they_are_whole(gate: Gate) -> None:
    for written, sent in (
        (("The", " cat", " s", "at", "."), ["The", " ", "cat ", "sat."]),
        (("C", "at", " sat", "."), ["C", "at ", "sat."]),
        (("Th", "e c", "at sat", "."), ["The ", "cat ", "sat."]),
        (("In fr", "ont of", " the cat", "."), ["In front of", " the ", "cat."]),
    ):
        assert await gate.streamed(*written) == sent


async def test_a_long_text_is_sent_as_it_grows_and_not_read_whole_for_every_part(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    whole_prefix_length = TextReader.whole_prefix_length

    def counted(reader: TextReader, text: str, following: str = "") -> int:
        reads.append(len(text))
        return whole_prefix_length(reader, text, following)

    monkeypatch.setattr(TextReader, "whole_prefix_length", counted)
    plain, full = ListOptions(punctuation="none"), "The cat sat. " * 50
    for text, end, options, least in (
        ("cat " * 1000, "hat", plain, 100),
        (full, "The hat", ListOptions(), 100),
        ("The\n" + "cat\nsat\n" * 50, "The hat", LINES, 100),
    ):
        reads.clear()
        written = re.findall(r"\S+\s", text)
        found = await gate.streamed(*written, end, stop=["x"], finish="length", options=options)
        assert "".join(found) == text + end
        assert len(found) >= least
        assert sum(reads) < 40 * len(text)


async def test_a_word_without_spaces_is_held_until_it_cannot_be_longer(gate: Gate) -> None:
    for stop in ([], ["x"]):
        found = await gate.streamed(*"我们去中国人。" * 50, "中", finish="length", lang="zh", stop=stop)
        assert "".join(found) == "我们去中国人。" * 50 + "中"
        assert set(found[:100]) <= {"我们", "去", "中国人", "。", "中国人。"}


async def test_token_ids_are_held_with_their_text(gate: Gate) -> None:
    full = ListOptions(punctuation="full")
    for written, options, expected in (
        (("The", " c", "at", "."), DEFAULT_OPTIONS, [("The", 1), (" ", 0), ("cat.", 3)]),
        # Half a character has a token and no text yet.
        (("The", " ", "", "\N{EM DASH}", "cat"), full, [("The", 1), (" ", 1), ("\N{EM DASH}", 2), ("cat", 1)]),
    ):
        sent, _ = read(await gate.ask(Said(written), stream=True, return_token_ids=True, options=options))
        choices = [choice for one in sent[1:] for choice in one["choices"]]
        found = [(one["delta"].get("content") or "", len(one.get("token_ids") or ())) for one in choices]
        assert found == expected


@pytest.mark.fault(63)
@shared
@given(st.data())
async def test_no_unlisted_word_leaves_where_the_mask_fails(gate: Gate, data: st.DataObject) -> None:
    """Among up to 60 parts is one that a mask may have forbidden."""
    wrong = st.sampled_from(["dog", "s", "xy", "the", "front", "of", " ", "  ", ".,", "é", "1a", "’", "\n"])
    pieces = st.sampled_from(["the", " ", "cat", " sat", " in front of", ".", ", ", "c"])
    written = data.draw(st.lists(pieces, max_size=60))
    at = data.draw(st.integers(0, len(written)))
    written[at:at] = [data.draw(wrong)]
    items = await gate.ask(Said(written), stream=True, return_token_ids=True)
    text = "".join(parts(items))
    assert re.fullmatch(r"(?:(?:The|the|Cat|cat|Sat|sat|A|a|C|c|On|on|[Ii]n front of|Mat|mat|Hat|hat|At|at)"
                        r"(?!\w)|[ ,.\n])*", text)  # fmt: skip
    ids = [token for one in read(items)[0] for choice in one["choices"] for token in choice.get("token_ids") or ()]
    assert text.startswith(gate.world.tokenizer.decode(ids))


@shared
@given(st.data())
async def test_a_stop_string_of_any_kind_leaves_the_same_text_whole_and_in_a_stream(
    gate: Gate, data: st.DataObject
) -> None:
    options = data.draw(st.sampled_from([SENTENCES, DEFAULT_OPTIONS]))
    reader = TextReader(WordList("en", WORDS, "file"), options, len(WORDS)).of_broken_off()
    words = data.draw(st.lists(st.sampled_from(["the cat", "a", "sat", "in front of", "c"]), min_size=2, max_size=9))
    gaps = [data.draw(st.sampled_from([" ", ", ", ". ", "! “", "?” ", " – "])) for _ in words[1:]]
    text = "".join(part for pair in zip(words, [*gaps, "."], strict=True) for part in pair)
    if not reader.is_between_words(text):
        return
    at = data.draw(st.integers(0, len(text) - 1))
    stop = text[at : at + data.draw(st.integers(1, 6))]
    at, in_text = text.index(stop), data.draw(st.booleans())
    kept = text[: at + len(stop) * in_text]
    fields: dict[str, Any] = {"options": options, "include_stop_str_in_output": in_text}
    whole = await gate.ask(Said((kept,), "stop", stop), **fields)
    shown = "".join(parts(whole))
    assert kept.startswith(shown)
    # A blank inside an entry leaves a part of it, which is no listed text.
    if re.fullmatch(r"\W.*\W|\W", stop) and reader.is_between_words(kept):
        assert shown.rstrip(" “–") == kept.rstrip(" “–") and (not in_text or shown == kept)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(kept)), max_size=6)) | {0, len(kept)})
    written = [kept[start:end] for start, end in pairwise(cuts)] or [""]
    streamed = await gate.ask(Said(written, "stop", stop), stream=True, **fields)
    assert "".join(parts(streamed)) == shown
    assert block(streamed) == block(whole)
