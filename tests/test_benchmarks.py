"""The benchmarks measure what they say: the same texts for every engine, limits, and an account of requests."""

import asyncio
import os
import re
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import PROGRAMS
from benchmarks.load.client import Account, Client, Request, Sent, chat, percentiles
from benchmarks.load.lane import pieces_of
from benchmarks.load.service import by_role, cpu_seconds, memory, used_by
from benchmarks.speed import masks
from benchmarks.speed.found import Found, Pair, comparison, parting
from benchmarks.speed.masks import compare_masks, run_limited, table
from benchmarks.speed.regexes import regex_of
from benchmarks.speed.texts import NUM_TEXTS, OPTIONS, text_sets, unlisted_texts
from tests.harness import free_port
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.grammar import write_ebnf
from vocab.text.reader import TextReader

WORDS = WordList("es", ("de", "la", "el", "es", "este", "más", "s/n", "bien-estar", "a.m", "él"), "inline")
CAPITALS = WordList("fr", ("l'", "homme", "Paris", "aujourd'hui", "de", "il"), "inline")
COMPARED = [
    OPTIONS,
    ListOptions(case="sentence", layout="lines", punctuation="full"),
    ListOptions(punctuation="basic", end="sentence"),
    ListOptions(punctuation="none", case="listed"),
    ListOptions(numbers=True, punctuation="basic"),
]


@pytest.mark.parametrize("options", COMPARED, ids=str)
@pytest.mark.parametrize("word_list", [WORDS, CAPITALS], ids=lambda word_list: word_list.lang)
@given(data=st.data())
def test_the_regular_expression_allows_what_the_reader_allows(
    word_list: WordList, options: ListOptions, data: st.DataObject
) -> None:
    pattern = _pattern(word_list, options)
    parts = [*word_list.words, *(word.capitalize() for word in word_list.words), *" \n.,:!?…—-¿(«»\"’'%", "12", "3.5"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=9)))
    assert (pattern.fullmatch(text) is not None) == TextReader(word_list, options, 99).is_text(text)


def test_longer_words_stand_before_their_beginnings() -> None:
    ebnf = write_ebnf(WordList("es", ("es", "este"), "inline"), ListOptions(case="listed", punctuation="full"), 2)
    assert regex_of(ebnf).index("ste") < regex_of(ebnf).index("s)")


@pytest.mark.parametrize("n_words", [3, 10])
def test_texts_to_follow_are_texts_of_the_list_and_the_others_are_none(n_words: int) -> None:
    reader = TextReader(WORDS, OPTIONS, n_words)
    for texts in text_sets(WORDS, n_words):
        assert len(texts.warm_up) == len(texts.timed) == NUM_TEXTS
        assert [text for text in (*texts.warm_up, *texts.timed) if not reader.is_text(text)] == []
    assert text_sets(WORDS, n_words) == text_sets(WordList("es", WORDS.words, "cleaned"), n_words)
    assert unlisted_texts(WORDS, OPTIONS, n_words)
    assert [text for text in unlisted_texts(WORDS, OPTIONS, n_words) if reader.is_text(text)] == []


def test_an_engine_ends_by_itself_or_at_its_limit() -> None:
    for program, status in (
        ('print("engines print too"); print(\'{"status": "measured"}\')', "measured"),
        ("raise SystemExit('it broke')", "crashed: it broke"),
        ("import time; time.sleep(60)", "over 5 s"),
        ("import resource as r; r.setrlimit(r.RLIMIT_DATA, (10**9,) * 2); bytearray(2 * 10**9)", "over 1 GiB"),
    ):
        assert run_limited([sys.executable, "-c", program], dict(os.environ), 5, 1)["status"].startswith(status)


def test_masks_are_compared_with_ours_and_an_engine_over_a_limit_is_reported() -> None:
    results = [_result(engine, n_words) for engine in ("wordbound", "llguidance") for n_words in (50, 3000)]
    results.append({"engine": "xgrammar-ebnf", "n_words": 3000, "status": "over 600 s"})
    compare_masks(results)
    assert masks.percentiles([1000] * 99 + [9000]) == {"p50": 1.0, "p99": 1.08, "max": 9.0}
    assert [result["sets"]["whole"]["masks_equal"] for result in results[:4]] == [1.0, 1.0, 0.5, 0.5]
    lines = list(table(results))
    assert "| 50 | llguidance | whole | 0.10 | 2.0 · 4.0 · 6.0 | 1.0 · 2.0 | 2 | 50.00% | 1.0 |" in lines
    assert "| 50 | llguidance | frequent | refuses the end of a listed text |" in lines
    assert lines[-1] == "| 3,000 | xgrammar-ebnf | over 600 s |"


OURS = Found((1, 2, 3), -0.5, -1.5, frozenset({(), (1,), (2,), (1, 2), (2, 2)}))
THEIRS = Found((1, 4, 3), -0.5002, -1.5006, frozenset({(), (1,), (2,), (1, 2), (1, 4), (2, 2), (1, 4, 9)}))
EQUAL = Pair("4 beams", "Why?", OURS, replace(OURS, score=-0.50001), ("So it is.", "So it is."))
DIFFERENT = Pair("4 beams", "How?", OURS, THEIRS, ("It is.", "It was."), ours_by_them=-1.503)


def test_a_difference_is_a_near_tie_by_the_texts_found_or_where_the_searches_part() -> None:
    assert parting(OURS, THEIRS) == {(1, 4)}
    assert parting(OURS, OURS) == frozenset()
    assert DIFFERENT.is_near_tie
    far = replace(DIFFERENT, theirs=replace(THEIRS, log_p=-1.8))
    assert not far.is_near_tie
    assert replace(far, first_gap=0.0).is_near_tie
    assert not replace(far, first_gap=0.01).is_near_tie


def test_scores_of_beams_are_compared_for_one_text_only() -> None:
    assert round(EQUAL.score_difference, 9) == 1e-5
    assert round(DIFFERENT.score_difference, 9) == 0.001
    assert replace(DIFFERENT, ours_by_them=None).score_difference == 0
    lines = list(comparison([EQUAL, DIFFERENT]))
    assert lines[1].split() == ["4", "beams", "2", "50.0%", "1", "0", "1.0e-03"]
    assert lines[-2:] == ["It is.", "It was."]
    assert DIFFERENT.as_dict()["is_near_tie"]


def test_every_part_of_a_program_exists() -> None:
    for program, part in [(name, part) for name, parts in PROGRAMS.items() for part in parts]:
        assert callable(import_module(f"benchmarks.{program}.{part}").main)


def test_an_account_has_each_request_by_kind_step_and_second() -> None:
    account = Account()
    at_seconds = ((7.0, "200", 0.5), (0.2, "200", 0.1), (1.4, "503", 0.1), (2.5, "503", 0.1), (4.0, "503", 3.0))
    sent = [Sent("chat", *one) for one in at_seconds]
    account.sent = [*sent, Sent("check", 6.0)]
    assert account.outcomes("chat") == {"200": 2, "503": 3}
    assert account.by_second("chat") == "0: 200; 1–2: 503; 4: 503 after 3 s; 7: 200"
    assert account.by_kind()[0] == "sent 6, accounted for 5; unlisted texts: none"
    first, second = account.by_step(5)
    assert first == "  from second 0: {'200': 1, '503': 3}; 200 after (p50 · p99 · longest) 0.10 · 0.10 · 0.10 s"
    assert second.startswith("  from second 5: {'under way': 1, '200': 1}; 200 after (p50 · p99 · longest) 0.50")
    account.restart()
    assert sent[0].sent_at == pytest.approx(7, abs=1)
    assert percentiles([float(number) for number in range(100, 0, -1)], 0.5, 0.99, 1, digits=0) == "51 · 100 · 100"


def test_pieces_are_counted_from_the_first_on() -> None:
    streamed = Sent("free", 0.0, "200", 1.0, first_s=0.1, gaps_s=[0.2, 0.4], num_tokens=9)
    assert pieces_of([streamed, replace(streamed, gaps_s=[])]) == ("100 · 100", "400 · 400", "4.5")
    assert pieces_of([Sent("whole", 0.0, "200", 1.0, num_tokens=9)]) == ("–", "–", "–")


async def _answer(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    if (text := body["messages"][0]["content"]) == "busy":
        return web.json_response({"error": {}}, status=503, headers={"Retry-After": "1"} if body["n"] else {})
    if text == "plain":
        return web.Response(text="no JSON", status=500)
    if not body.get("stream"):
        return web.json_response({"choices": [{"message": {"content": text}}], "usage": {"completion_tokens": 3}})
    answer = web.StreamResponse()
    await answer.prepare(request)
    for piece in ("", *text):
        await answer.write(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % piece.encode())
    if text == "cut":
        return answer
    await answer.write(b'data: {"choices":[],"usage":{"completion_tokens":4}}\n\n')
    await answer.write(b'data: {"error":{}}\n\n' if text == "bad" else b"data: [DONE]\n\n")
    if text == "stays":
        await asyncio.sleep(5)
    return answer


def test_the_client_tells_what_came_of_a_request_and_reads_its_text() -> None:
    def is_listed(text: str, is_whole: bool) -> bool:
        return text in ("", "good", "bad") and (is_whole or text != "")

    def ask(text: str, **fields: Any) -> Request:
        return chat(text, messages=[{"content": text}], is_listed=is_listed, **fields)

    async def outcomes(client: Client) -> list[str]:
        asked = (
            ask("good"), ask("wrong"), ask("busy", n=1), ask("busy", n=0), ask("plain"), ask("good", stream=True),
            ask("bad", stream=True), ask("cut", stream=True), ask("stays", stream=True, leaves_s=0.3),
        )  # fmt: skip
        return [(await client.ask(one)).outcome for one in asked]

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", _answer)
        runner, port = web.AppRunner(app), free_port()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        async with Client(f"http://127.0.0.1:{port}", "key", "one") as client:
            found = await outcomes(client)
            assert found[:4] == ["200", "200", "503", "503, no Retry-After"]
            assert found[4:] == ["500 in plain text", "200", "error event", "cut", "left"]
            assert client.account.unlisted == ["wrong", "cut", "stays"]
            streamed = client.account.sent[5]
            assert (streamed.num_tokens, len(streamed.gaps_s), streamed.first_s > 0) == (4, 3, True)
            await client.closed_loop(2, lambda: ask("good"), times=3)
            assert client.account.outcomes("good") == {"200": 8}
            await runner.cleanup()
            assert (await client.ask(ask("good"))).outcome == "refused connection"

    asyncio.run(run())


def test_processes_are_known_by_their_command_lines() -> None:
    found = by_role([os.getpid(), 2**22 + 1])
    assert list(found) == ["other"]
    pid = os.getpid()
    assert used_by([pid], memory)["other", pid] > 10
    assert used_by([pid], cpu_seconds)["other", pid] > 0


def _pattern(word_list: WordList, options: ListOptions) -> re.Pattern[str]:
    return re.compile(regex_of(write_ebnf(word_list, options, 99)))


def _result(engine: str, n_words: int) -> dict[str, Any]:
    mask_us, accept_us = {"p50": 2.0, "p99": 4.0, "max": 6.0}, {"p50": 1.0, "p99": 2.0, "max": 3.0}
    whole = {"signatures": [7, 8 if engine == "wordbound" else 9], "num_masks": 2}
    return {
        "engine": engine, "n_words": n_words, "status": "measured", "compile_s": 0.1, "copy_us": {"p50": 1.0},
        "sets": {"frequent": {"refused": "the end of a listed text"},
                 "whole": {**whole, "mask_us": mask_us, "accept_us": accept_us}},
    }  # fmt: skip
