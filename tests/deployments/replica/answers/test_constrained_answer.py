import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.replica.answers.constrained_answer import AnswerRules, StreamFilter, UnlistedTextError, finish_answer
from deployments.search.request import AnswerCost
from vocab.decoding.select import TextScore
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.reader import TextReader
from vocab.text.segmented.segmenter import Dictionary

WORDS = ("the", "cat", "sat", "a", "c", "on", "in front of", "mat", "hat", "at")
READER = TextReader(WordList("en", WORDS, "file"), ListOptions(), len(WORDS))
FULL_SENTENCES = TextReader(WordList("en", WORDS, "file"), ListOptions(punctuation="full", end="sentence"), len(WORDS))
SENTENCES = TextReader(WordList("en", WORDS, "file"), ListOptions(end="sentence"), len(WORDS))
CHINESE = TextReader(
    WordList("zh", ("我们", "去", "中", "中国人"), "file"), ListOptions(), 4, reference=Dictionary(("中国", "国", "人"))
)
BLOCK = {"id": "digest", "lang": "en", "n_words": 10}


def rules(*, may_be_cut: bool = True, stop_in_text: bool = False) -> AnswerRules:
    return AnswerRules(READER, BLOCK, may_be_cut, may_be_cut, stop_in_text)


def stopped(reader: TextReader = SENTENCES, *, stop_in_text: bool = False) -> AnswerRules:
    """The rules where nothing but a stop string ends a text inside a sentence."""
    return AnswerRules(reader, BLOCK, False, has_stop=True, stop_in_text=stop_in_text)


def choice(
    text: str, stop_reason: str | int | None = None, finish_reason: str = "stop", index: int = 0
) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish_reason,
        "stop_reason": stop_reason,
    }


def entry(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -1.0, "bytes": list(text.encode()), "top_logprobs": []}


def chunk(
    text: str, *, finish_reason: str | None = None, stop_reason: str | None = None, index: int = 0
) -> dict[str, Any]:
    made = {"index": index, "delta": {"content": text}, "finish_reason": finish_reason, "logprobs": None}
    if finish_reason:
        made["stop_reason"] = stop_reason
    return {"id": "x", "choices": [made]}


def stream(chunks: Sequence[dict[str, Any]], by: AnswerRules, cost: AnswerCost | None = None) -> list[dict[str, Any]]:
    stream_filter = StreamFilter(by)
    sent = [passed for one in json.loads(json.dumps(chunks)) for passed in stream_filter.pass_on(one)]
    return [*sent, *stream_filter.finish(cost)]


def text_of(chunks: Sequence[dict[str, Any]], index: int = 0) -> str:
    return "".join(
        one["delta"].get("content") or "" for made in chunks for one in made["choices"] if one["index"] == index
    )


class TestWholeAnswers:
    def test_gets_the_counts_of_its_words(self) -> None:
        answer = finish_answer({"choices": [choice("The cat sat on the mat.")]}, rules(may_be_cut=False))
        assert answer["vocab"] == BLOCK | {"num_words": 6, "num_distinct_words": 5, "max_rank": 8}

    def test_adds_up_words_over_choices(self) -> None:
        answer = finish_answer(
            {"choices": [choice("The cat."), choice("The hat sat.", index=1)]}, rules(may_be_cut=False)
        )
        assert answer["vocab"]["num_words"] == 5
        assert answer["vocab"]["max_rank"] == 9

    @pytest.mark.parametrize(
        ("text", "stop", "kept"),
        [
            ("The cat sat on the c", "at", "The cat sat on the"),
            ("The cat sat on the ", "mat", "The cat sat on the"),
            ("The cat sat", ".", "The cat sat"),
            ("The cat sat", " on", "The cat sat"),
            ("The cat. The ", "cat", "The cat. The"),
            ("Th", "e", ""),
            ("", "The", ""),
        ],
    )
    def test_keeps_no_part_of_a_word_before_a_stop_string(self, text: str, stop: str, kept: str) -> None:
        answer = finish_answer({"choices": [choice(text, stop)]}, rules())
        assert answer["choices"][0]["message"]["content"] == kept

    def test_counts_nothing_in_an_empty_answer(self) -> None:
        answer = finish_answer({"choices": [choice("", "The")]}, rules())
        assert answer["vocab"] == BLOCK | {"num_words": 0, "num_distinct_words": 0, "max_rank": 0}

    @pytest.mark.parametrize(
        ("text", "stop", "kept"),
        [
            ("The cat sat", ".", "The cat sat"),
            ("The cat sat. The hat", ",", "The cat sat. The hat"),
            ("The cat sat on", " the", "The cat sat on"),
            ("The cat sat on the c", "at", "The cat sat on the"),
            ("“The cat", ",” sat", "“The cat"),
            ("The cat sat. “The hat on ", "the", "The cat sat. “The hat on"),
            ("The cat sat, “", "The", "The cat sat,"),
            ("The cat’", "s", "The"),
        ],
    )
    def test_ends_inside_a_sentence_where_a_stop_string_came(self, text: str, stop: str, kept: str) -> None:
        answer = finish_answer({"choices": [choice(text, stop)]}, stopped())
        assert answer["choices"][0]["message"]["content"] == kept
        assert answer["vocab"]["num_words"] == len(kept.split())

    @pytest.mark.parametrize(
        ("text", "stop", "kept"),
        [
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
        ],
    )
    def test_keeps_a_stop_string_that_was_asked_for_unless_it_cut_a_word(self, text: str, stop: str, kept: str) -> None:
        answer = finish_answer({"choices": [choice(text, stop)]}, stopped(stop_in_text=True))
        assert answer["choices"][0]["message"]["content"] == kept
        assert answer["vocab"]["num_words"] == len(re.findall(r"\w+", kept))
        sent = stream(
            [chunk(text[:5]), chunk(text[5:], finish_reason="stop", stop_reason=stop)], stopped(stop_in_text=True)
        )
        assert text_of(sent) == kept
        assert sent[-1]["vocab"] == answer["vocab"]

    def test_a_sentence_that_nothing_ended_is_still_trimmed(self) -> None:
        for reason in ("stop", "length"):
            answer = finish_answer({"choices": [choice("The cat sat. The hat", finish_reason=reason)]}, stopped())
            assert answer["choices"][0]["message"]["content"] == "The cat sat."

    def test_drops_the_logprobs_of_what_is_trimmed(self) -> None:
        made = choice("The c", "at") | {"logprobs": {"content": [entry("The"), entry(" cat")]}}
        finish_answer({"choices": [made]}, rules())
        assert [one["token"] for one in made["logprobs"]["content"]] == ["The"]

    def test_leaves_the_logprobs_of_an_uncut_answer_alone(self) -> None:
        made = choice("The cat") | {"logprobs": {"content": [entry("The"), entry(" cat"), entry("<end>")]}}
        finish_answer({"choices": [made]}, rules())
        assert len(made["logprobs"]["content"]) == 3

    @pytest.mark.parametrize("text", ["The dog sat.", "The ca"])
    def test_refuses_a_text_that_nothing_could_have_cut(self, text: str) -> None:
        with pytest.raises(UnlistedTextError):
            finish_answer({"choices": [choice(text, finish_reason="length")]}, rules(may_be_cut=False))


class TestStreams:
    def test_passes_uncut_text_on_by_words_with_the_block_in_the_last_chunk(self) -> None:
        chunks = [chunk("The c"), chunk("at"), chunk(" sat, a"), chunk("."), chunk("", finish_reason="stop")]
        sent = stream(chunks, rules(may_be_cut=False))
        assert [text_of([one]) for one in sent] == ["The ", "cat sat, ", "a.", ""]
        assert ["vocab" in one for one in sent] == [False, False, False, True]
        assert sent[-1]["vocab"]["num_words"] == 4

    def test_parts_of_whole_words_are_sent_at_once_and_others_held_even_so(self) -> None:
        chunks = [
            chunk("The"),
            chunk(" cat"),
            chunk(" i"),
            chunk("n front"),
            chunk(" of,"),
            chunk("", finish_reason="stop"),
        ]
        sent = stream(chunks, AnswerRules(READER, BLOCK, False, False, has_whole_parts=True))
        assert [text_of([one]) for one in sent] == ["The", " cat", " ", "in front of,", ""]

    def test_puts_the_block_into_the_chunk_with_the_usage(self) -> None:
        usage = {"id": "x", "choices": [], "usage": {"total_tokens": 3}}
        sent = stream([chunk("The cat", finish_reason="stop"), usage], rules(may_be_cut=False))
        assert ["vocab" in one for one in sent] == [False, True]
        assert sent[-1]["usage"] == {"total_tokens": 3}

    def test_waits_for_all_choices(self) -> None:
        chunks = [
            chunk("The cat", finish_reason="stop", index=1),
            chunk("The "),
            chunk("hat", finish_reason="stop"),
        ]
        sent = stream(chunks, rules(may_be_cut=False))
        assert ["vocab" in one for one in sent] == [False, False, True]
        assert sent[-1]["vocab"]["num_words"] == 4

    def test_sends_a_word_only_when_it_is_known_to_be_whole(self) -> None:
        chunks = [chunk("The c"), chunk("at"), chunk(" s"), chunk("a", finish_reason="stop", stop_reason="t")]
        sent = stream(chunks, rules())
        assert [text_of([one]) for one in sent] == ["The", " cat", ""]

    def test_an_entry_with_spaces_is_sent_whole(self) -> None:
        chunks = [chunk("The cat sat in"), chunk(" front"), chunk(" of"), chunk(" the mat", finish_reason="stop")]
        sent = stream(chunks, rules())
        assert [text_of([one]) for one in sent] == ["The cat sat", " in front of the mat"]

    def test_reads_on_from_the_last_sentence(self) -> None:
        chunks = [chunk(f"{word} ") for word in ("The cat sat. " * 50).split()]
        sent = stream([*chunks, chunk("The hat", finish_reason="stop")], rules())
        assert text_of(sent) == "The cat sat. " * 50 + "The hat"

    def test_reads_on_from_the_last_line(self) -> None:
        reader = TextReader(WordList("en", WORDS, "file"), ListOptions(layout="lines", punctuation="none"), len(WORDS))
        by = AnswerRules(reader, BLOCK, may_be_cut=True, has_stop=True)
        chunks = [chunk(f"{word}\n") for word in ("The cat sat " * 50).split()]
        sent = stream([*chunks, chunk("The hat i", finish_reason="stop", stop_reason="n")], by)
        assert text_of(sent) == "\n".join(["The", "cat", "sat"] * 50) + "\nThe hat"

    def test_reads_on_from_the_last_sentence_behind_what_the_client_wrote(self) -> None:
        by = AnswerRules(READER.after("Zoe"), BLOCK, may_be_cut=True, stop_in_text=False)
        filter_ = StreamFilter(by)
        sent = [text_of(filter_.pass_on(chunk(part))) for part in (" sat. ", "The cat", " sat. ", "The hat", " sat")]
        assert sent == [" sat.", " The", " cat sat.", " The", " hat"]

    def test_a_long_text_without_sentences_is_not_read_for_every_chunk(self) -> None:
        reads: list[int] = []

        class Counting(TextReader):
            def whole_prefix_length(self, text: str, following: str = "") -> int:
                reads.append(len(text))
                return super().whole_prefix_length(text, following)

        reader = Counting(WordList("en", WORDS, "file"), ListOptions(punctuation="none"), len(WORDS))
        chunks = [chunk(f"{word} ") for word in ["cat"] * 1000]
        sent = stream([*chunks, chunk("hat", finish_reason="stop")], AnswerRules(reader, BLOCK, True, False))
        assert text_of(sent) == "cat " * 1000 + "hat"
        assert len(sent) > 100
        assert sum(reads) < 40 * len(text_of(sent))

    @pytest.mark.parametrize("may_be_cut", [True, False])
    def test_holds_a_word_without_spaces_until_it_cannot_be_longer(self, may_be_cut: bool) -> None:
        chunks = [chunk(char) for char in "我们去中国人。" * 50]
        sent = stream([*chunks, chunk("中", finish_reason="length")], AnswerRules(CHINESE, BLOCK, may_be_cut, False))
        assert text_of(sent) == "我们去中国人。" * 50 + "中"
        assert {"我们", "去", "中国人", "。"} >= {text_of([one]) for one in sent[:100]} - {""}

    def test_a_stop_string_inside_a_word_without_spaces_cuts_before_it(self) -> None:
        chunks = [chunk("我们去"), chunk("中", finish_reason="stop", stop_reason="国")]
        assert text_of(stream(chunks, AnswerRules(CHINESE, BLOCK, True, False))) == "我们去"
        whole = [chunk("我们去中国", finish_reason="stop", stop_reason="国")]
        assert text_of(stream(whole, AnswerRules(CHINESE, BLOCK, True, True, stop_in_text=True))) == "我们去"

    def test_holds_a_sentence_until_it_is_whole(self) -> None:
        by = AnswerRules(FULL_SENTENCES, BLOCK, may_be_cut=True)
        chunks = [chunk(text) for text in ("The cat", " sat. The", " hat! A", " mat", '." c')]
        sent = stream([*chunks, chunk("at", finish_reason="length")], by)
        assert [text_of([one]) for one in sent if text_of([one])] == ["The cat sat.", " The hat!", ' A mat."']

    def test_holds_a_quotation_until_it_is_closed(self) -> None:
        by = AnswerRules(SENTENCES, BLOCK, may_be_cut=True)
        chunks = [
            chunk(text) for text in ("The cat. “The", " cat sat. The", " hat!", " A mat", ".” A hat. (A", " mat.")
        ]
        sent = stream([*chunks, chunk(" The", finish_reason="length")], by)
        assert [text_of([one]) for one in sent if text_of([one])] == [
            "The cat.",
            " “The cat sat. The hat! A mat.” A hat.",
        ]

    def test_refuses_unlisted_text_before_the_end(self) -> None:
        with pytest.raises(UnlistedTextError):
            stream([chunk("The dog"), chunk(".", finish_reason="stop")], rules(may_be_cut=False))

    @given(st.data())
    def test_no_unlisted_word_leaves_where_the_mask_fails(self, data: st.DataObject) -> None:
        """Among up to 60 chunks is one that a mask may have forbidden."""
        wrong = st.sampled_from(["dog", "s", "xy", "the", "front", "of", " ", "  ", ".,", "é", "1a", "’", "\n"])
        parts = data.draw(
            st.lists(st.sampled_from(["the", " ", "cat", " sat", " in front of", ".", ", ", "c"]), max_size=60)
        )
        at = data.draw(st.integers(0, len(parts)))
        parts[at:at] = [data.draw(wrong)]
        stream_filter = StreamFilter(rules(may_be_cut=False))
        sent: list[dict[str, Any]] = []
        with suppress(UnlistedTextError):
            for part in [*parts, None]:
                one = chunk("", finish_reason="stop") if part is None else chunk(part)
                one["choices"][0]["token_ids"] = [*(part or "").encode()]
                sent += stream_filter.pass_on(one)
        text = text_of(sent)
        unread = re.fullmatch(r"(?:(?:The|the|Cat|cat|Sat|sat|A|a|C|c|On|on|[Ii]n front of|Mat|mat|Hat|hat|At|at)"
                              r"(?!\w)|[ ,.\n])*", text)  # fmt: skip
        assert unread
        ids = [token for one in sent for made in one["choices"] for token in made["token_ids"]]
        assert text.encode().startswith(bytes(ids))

    def test_holds_token_ids_with_their_text(self) -> None:
        chunks = [chunk("The"), chunk(" c"), chunk("at"), chunk(".", finish_reason="stop")]
        for number, one in enumerate(chunks):
            one["choices"][0]["token_ids"] = [number]
        sent = stream(chunks, rules(may_be_cut=False))
        assert [(text_of([one]), one["choices"][0]["token_ids"]) for one in sent] == [
            ("The ", []),
            ("cat.", [0, 1, 2, 3]),
        ]

    def test_holds_the_token_ids_of_half_a_character(self) -> None:
        chunks = [chunk("The "), chunk(""), chunk("\N{EM DASH}"), chunk("cat", finish_reason="stop")]
        for number, one in enumerate(chunks):
            one["choices"][0]["token_ids"] = [number]
        full = AnswerRules(
            TextReader(WordList("en", WORDS, "file"), ListOptions(punctuation="full"), len(WORDS)), BLOCK, False, False
        )
        sent = stream(chunks, full)
        assert [one["choices"][0]["token_ids"] for one in sent] == [[0], [1, 2], [3]]

    def test_breaks_off_where_no_text_goes_on(self) -> None:
        stream_filter = StreamFilter(rules(may_be_cut=False))
        assert text_of(stream_filter.pass_on(chunk("The cat s"))) == "The cat "
        with pytest.raises(UnlistedTextError):
            for _ in range(20):
                assert not stream_filter.pass_on(chunk("xyzxyz"))

    def test_sends_logprobs_with_their_text(self) -> None:
        chunks = [chunk("The"), chunk(" cat"), chunk(" c", finish_reason="stop", stop_reason="at")]
        for one, token in zip(chunks, ["The", " cat", " cat"], strict=True):
            one["choices"][0]["logprobs"] = {"content": [entry(token)]}
        sent = stream(chunks, rules())
        tokens = [e["token"] for one in sent for e in one["choices"][0]["logprobs"]["content"]]
        assert tokens == ["The", " cat"]

    def test_goes_on_behind_an_entry_that_looks_like_the_end_of_a_sentence(self) -> None:
        reader = TextReader(WordList("en", ("the", "Dr. Ana", "sat"), "file"), ListOptions(), 3)
        filter_ = StreamFilter(AnswerRules(reader, BLOCK, may_be_cut=True))
        sent = [text_of(filter_.pass_on(chunk(part))) for part in ("The Dr. Ana", " sat. The", " the sat", " the")]
        assert sent == ["The", " Dr. Ana sat.", " The the", " sat"]

    def test_a_quotation_is_sent_by_words_where_only_a_stop_string_may_end_it(self) -> None:
        parts = ["The cat: “The", " hat sat. The", " mat sat! A", " cat", " sat.” The", " c"]
        sent = stream([*map(chunk, parts), chunk("", finish_reason="stop", stop_reason="at")], stopped())
        assert [text_of([one]) for one in sent] == [
            "The cat:", " “The hat sat.", " The mat sat!", " A", " cat sat.”", " The", "",
        ]  # fmt: skip

    @given(st.data())
    def test_a_stop_string_of_any_kind_leaves_the_same_text_whole_and_in_a_stream(self, data: st.DataObject) -> None:
        pieces = data.draw(
            st.lists(st.sampled_from(["the cat", "a", "sat", "in front of", "c"]), min_size=2, max_size=9)
        )
        gaps = [data.draw(st.sampled_from([" ", ", ", ". ", "! “", "?” ", " – "])) for _ in pieces[1:]]
        text = "".join(part for pair in zip(pieces, [*gaps, "."], strict=True) for part in pair)
        if not SENTENCES.of_broken_off().is_between_words(text):
            return
        at = data.draw(st.integers(0, len(text) - 1))
        stop = text[at : at + data.draw(st.integers(1, 6))]
        at, in_text = text.index(stop), data.draw(st.booleans())
        kept, by = text[: at + len(stop) * in_text], stopped(stop_in_text=in_text)
        whole = finish_answer({"choices": [choice(kept, stop)]}, by)
        shown = whole["choices"][0]["message"]["content"]
        assert kept.startswith(shown)
        # A blank inside an entry leaves a part of it, which is no listed text.
        if re.fullmatch(r"\W.*\W|\W", stop) and SENTENCES.of_broken_off().is_between_words(kept):
            assert shown.rstrip(" “–") == kept.rstrip(" “–") and (not in_text or shown == kept)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(kept)), max_size=6)) | {0, len(kept)})
        chunks = [chunk(kept[start:end]) for start, end in pairwise(cuts)]
        sent = stream([*chunks, chunk("", finish_reason="stop", stop_reason=stop)], by)
        assert text_of(sent) == shown
        assert sent[-1]["vocab"] == whole["vocab"]

    @given(st.lists(st.sampled_from(WORDS[:5] + WORDS[6:]), min_size=1, max_size=12), st.data())
    def test_streamed_text_equals_whole_text_for_every_cut(self, words: list[str], data: st.DataObject) -> None:
        text = " ".join(words).capitalize() + "."
        stop_at = data.draw(st.integers(0, len(text) - 1))
        stop = text[stop_at : stop_at + data.draw(st.integers(1, 4))]
        kept = text[:stop_at]
        whole = finish_answer({"choices": [choice(kept, stop)]}, rules())
        cuts = sorted(data.draw(st.sets(st.integers(0, len(kept)), max_size=6)) | {0, len(kept)})
        chunks = [chunk(kept[start:end]) for start, end in pairwise(cuts)]
        sent = stream([*chunks, chunk("", finish_reason="stop", stop_reason=stop)], rules())
        assert text_of(sent) == whole["choices"][0]["message"]["content"]
        assert sent[-1]["vocab"] == whole["vocab"]


def test_the_price_of_the_first_text_is_told_whole_and_in_a_stream() -> None:
    score = TextScore(log_p=-8 * math.log(2), log_mass=-1.5, num_tokens=4)
    by, cost = AnswerRules(READER, BLOCK, may_be_cut=False), AnswerCost(score, 9)
    price = {"log_mass_per_word": 0.5, "bits_per_char": 0.8, "generated_tokens": 9}
    answer = {"choices": [choice("a cat sat."), choice("the mat", index=1)]}
    whole = finish_answer(answer, by, cost)["vocab"]
    assert {name: whole[name] for name in price} == price
    assert whole["num_words"] == 5
    assert stream([chunk("a cat sat.", finish_reason="stop")], by, cost)[-1]["vocab"].items() >= price.items()


def test_an_empty_first_text_has_no_price() -> None:
    cost = AnswerCost(TextScore(log_p=-1.0), 1)
    by = AnswerRules(READER, BLOCK, may_be_cut=True)
    block = finish_answer({"choices": [choice(""), choice("the mat", index=1)]}, by, cost)["vocab"]
    assert (block["bits_per_char"], block["log_mass_per_word"], block["num_words"]) == (None, None, 2)
