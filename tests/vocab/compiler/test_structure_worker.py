"""What a client's schema may cost, tried in forks; the whole process is tested with its parent."""

import faulthandler
import json
import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest
import xgrammar

from tests.hostile_grammars import BEGINNING
from vocab.compiler import structure_worker
from vocab.compiler.jobs import CheckStructure, StructureLanguage
from vocab.compiler.structure_worker import LarkTokenizer, SpelledTokens, fault_of, in_fork, lark_fault_of

INFO = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(128)] + [b""], stop_token_ids=[128])
SPELLED = SpelledTokens(INFO)


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def fault(schema: object) -> str:
    return fault_of(CheckStructure(json.dumps(schema)), INFO, SPELLED)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"enum": ["red", "blue"]},
        {"const": 7},
        True,
    ],
)
def test_what_the_engine_can_follow_is_faultless(schema: object) -> None:
    assert fault(schema) == ""


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}]}])
def test_what_no_text_fits_is_refused(schema: object) -> None:
    assert fault(schema) == "no finite text fits it"


@pytest.mark.parametrize(
    ("schema", "part"), [({"$ref": "#" + "/a" * 10_000}, "Cannot find field a"), (7, ""), ({"type": 7}, "")]
)
def test_xgrammars_reason_is_short_and_has_no_file(schema: object, part: str) -> None:
    reason = fault(schema)
    assert part in reason
    assert 0 < len(reason) <= 100
    assert "cpp" not in reason


def test_a_grammar_is_tried_as_a_schema_is() -> None:
    assert fault_of(CheckStructure('root ::= "a" | "b"', "ebnf"), INFO, SPELLED) == ""
    assert fault_of(CheckStructure('root ::= "a', "ebnf"), INFO, SPELLED)


def followed(language: StructureLanguage, text: str, num_tokens: int = 64) -> str:
    job = CheckStructure(text, language, num_tokens)
    if language == "lark":
        return lark_fault_of(job, LarkTokenizer(INFO).get(), SPELLED)
    return fault_of(job, INFO, SPELLED)


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("regex", "(yes|no){1,3}", ""),
        ("regex", "(yes", "The parenthesis is not closed"),
        ("ebnf", "root ::= root", "no finite text fits it"),
        ("lark", 'start: "yes" | name\nname[capture]: /[a-z]{2,9}/', ""),
        # As guidance sends them; llguidance cannot go back in such.
        ("lark", 'start: "yes" name\nname[max_tokens=12, temperature=0.0]: /(?s:.*)/', ""),
        ("lark", 'start: name "yes"\nname[stop="."]: /[a-z]+/', ""),
        ("lark", "start: missing", 'unknown name: "missing"'),
        ("lark", "start: start", "no finite text fits it"),
        ("lark", 'start: "a" start', "Too many items"),
        ("lark", "start: /(/", "invalid regex"),
        ("lark", "start: <|im_end|>", "unknown special token"),
    ],
)
def test_expressions_and_grammars_are_tried_in_their_languages(
    language: StructureLanguage, text: str, said: str
) -> None:
    reason = followed(language, text)
    assert said in reason
    assert bool(reason) == bool(said)
    assert len(reason) <= 100


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
    assert followed(language, text, 8) == ""
    assert followed(language, text, 1024) != ""


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("regex", r"[A-Z][a-z]+(,? [a-z]+)*\."),
        ("regex", "(" + "|".join(f"word{i}" for i in range(2_000)) + ")( (word|name))*"),
        ("ebnf", 'root ::= e\ne ::= t (("+" | "-") t)*\nt ::= [0-9]+ | "(" e ")"'),
        (
            "json_schema",
            json.dumps({"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(100)}}),
        ),
        ("json_schema", '{"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}}'),
        ("lark", 'start: (N " ")*\nN: ' + " | ".join(f'"noun{i}"' for i in range(500))),
    ],
)
def test_ordinary_ones_are_followed_to_the_end(language: StructureLanguage, text: str) -> None:
    assert followed(language, text, 1024) == ""


def test_a_result_comes_back_from_the_fork() -> None:
    assert in_fork(lambda: "é is why") == "é is why"
    assert in_fork(lambda: "") == ""


def _spin() -> str:
    while True:
        pass


def _grow() -> str:
    parts = []
    while True:
        # Never written, so that the limit on memory is met long before that on processor time, on any machine.
        parts.append(bytes(2**24))


def _fault() -> str:
    # Which pytest would report at length.
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)
    return ""


def _abort() -> str:
    faulthandler.disable()
    os.abort()


def _raise() -> str:
    raise ValueError


def test_what_takes_too_long_is_ended() -> None:
    start = time.monotonic()
    before = os.times()
    assert "processor time" in in_fork(_spin)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 2 * structure_worker.MAX_CPU_S
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("crash", [_grow, _raise, _abort, _fault])
def test_what_grows_or_crashes_ends_its_fork_alone(crash: object) -> None:
    assert "too much memory" in in_fork(crash)  # type: ignore[arg-type]
