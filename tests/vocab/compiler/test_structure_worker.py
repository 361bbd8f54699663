"""What a client's schema may cost, tried in forks; the whole process is tested with its parent."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
import xgrammar

from tests.hostile_grammars import BEGINNING
from vocab.compiler.jobs import CheckStructure, StructureLanguage
from vocab.compiler.structure_worker import (
    MAX_CPU_S,
    LarkTokenizer,
    SpelledTokens,
    fault_in_fork,
    fault_of,
    lark_fault_of,
)

INFO = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(128)] + [b""], stop_token_ids=[128])
SPELLED = SpelledTokens(INFO)
NO_TEXT = "no finite text fits it"


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def fault(language: StructureLanguage, text: object, num_tokens: int = 64) -> str:
    job = CheckStructure(text if isinstance(text, str) else json.dumps(text), language, num_tokens)
    if language == "lark":
        return lark_fault_of(job, LarkTokenizer(INFO).get(), SPELLED)
    return fault_of(job, INFO, SPELLED)


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("json_schema", {"type": "string"}, ""),
        ("json_schema", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, ""),
        ("json_schema", {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, ""),
        ("json_schema", {"enum": ["red", "blue"]}, ""),
        ("json_schema", {"const": 7}, ""),
        ("json_schema", True, ""),
        ("json_schema", {"$ref": "#"}, NO_TEXT),
        ("json_schema", {"allOf": [{"$ref": "#"}]}, NO_TEXT),
        ("json_schema", {"anyOf": [{"$ref": "#"}]}, NO_TEXT),
        ("json_schema", {"$ref": "#" + "/a" * 10_000}, "Cannot find field a"),
        ("json_schema", 7, " "),
        ("json_schema", {"type": 7}, " "),
        ("regex", "(yes|no){1,3}", ""),
        ("regex", "(yes", "The parenthesis is not closed"),
        ("ebnf", 'root ::= "a" | "b"', ""),
        ("ebnf", 'root ::= "a', " "),
        ("ebnf", "root ::= root", NO_TEXT),
        ("lark", 'start: "yes" | name\nname[capture]: /[a-z]{2,9}/', ""),
        # As guidance sends them; llguidance cannot go back in such.
        ("lark", 'start: "yes" name\nname[max_tokens=12, temperature=0.0]: /(?s:.*)/', ""),
        ("lark", 'start: name "yes"\nname[stop="."]: /[a-z]+/', ""),
        ("lark", "start: missing", 'unknown name: "missing"'),
        ("lark", "start: start", NO_TEXT),
        ("lark", 'start: "a" start', "Too many items"),
        ("lark", "start: /(/", "invalid regex"),
        ("lark", "start: <|im_end|>", "unknown special token"),
    ],
)
def test_what_the_engine_cannot_follow_is_refused_with_a_short_reason(
    language: StructureLanguage, text: object, said: str
) -> None:
    reason = fault(language, text)
    assert said in reason
    assert bool(reason) == bool(said)
    assert len(reason) <= 100
    # No file of the library.
    assert "cpp" not in reason


@pytest.mark.fault(68)
@pytest.mark.parametrize("beginning", ["", BEGINNING])
@pytest.mark.parametrize(
    ("language", "rules"),
    [("regex", "(([a-z ]*)*)*"), ("ebnf", "e ::= e e | [a-z ]"), ("lark", "e: e e | /[a-z ]/")],
)
def test_what_explodes_after_a_beginning_is_refused_by_the_length_that_is_asked_for(
    language: StructureLanguage, rules: str, beginning: str
) -> None:
    text = {
        "regex": beginning.replace(".", r"\.") + rules,
        "ebnf": f'root ::= "{beginning}" e\n{rules}',
        "lark": (f'start: "{beginning}" e\n{rules}' if beginning else f"start: e\n{rules}"),
    }[language]
    # A token of this tokenizer is a character.
    assert fault(language, text, 8) == ""
    assert fault(language, text, 1024) != ""


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("regex", r"[A-Z][a-z]+(,? [a-z]+)*\."),
        ("regex", "(" + "|".join(f"word{i}" for i in range(2_000)) + ")( (word|name))*"),
        ("ebnf", 'root ::= e\ne ::= t (("+" | "-") t)*\nt ::= [0-9]+ | "(" e ")"'),
        ("json_schema", {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(100)}}),
        ("json_schema", {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}}),
        ("lark", 'start: (N " ")*\nN: ' + " | ".join(f'"noun{i}"' for i in range(500))),
    ],
)
def test_ordinary_ones_are_followed_to_the_end(language: StructureLanguage, text: object) -> None:
    assert fault(language, text, 1024) == ""


def _spin() -> str:
    while True:
        pass


@pytest.mark.fault(68)
def test_what_takes_too_long_is_ended() -> None:
    start, before = time.monotonic(), os.times()
    assert "processor time" in fault_in_fork(_spin)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 2 * MAX_CPU_S
    assert time.monotonic() - start < 60


def _grow() -> str:
    parts = []
    while True:
        # Never written, so that the limit on memory is met long before that on processor time, on any machine.
        parts.append(bytes(2**24))


def _crash(crash: Callable[[], object]) -> Callable[[], str]:
    def run() -> str:
        # Which pytest, and Ray where another test has loaded it, would report at length.
        for number in (signal.SIGABRT, signal.SIGSEGV):
            signal.signal(number, signal.SIG_DFL)
        crash()
        return ""

    return run


@pytest.mark.fault(68)
@pytest.mark.parametrize(
    "crash",
    [_grow, _crash(lambda: 1 // 0), _crash(os.abort), _crash(lambda: os.kill(os.getpid(), signal.SIGSEGV))],
    ids=["grows", "raises", "aborts", "faults"],
)
def test_what_grows_or_crashes_ends_its_fork_alone(crash: Callable[[], str]) -> None:
    assert fault_in_fork(lambda: "é is why") == "é is why"
    assert "too much memory" in fault_in_fork(crash)
