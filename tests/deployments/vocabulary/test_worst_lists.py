"""The slowest lists that a request may send, in a real compile process: compiled or refused, and cheaply."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from deployments.settings.limits import Limits
from deployments.vocabulary.compile_pool import MAX_CPU_S
from tests.deployments.processes import toy_command
from vocab.artefacts.store import ArtefactStore
from vocab.compiler.compile_process import CompileProcess
from vocab.compiler.jobs import ChangeList, CompileList, MeasureTexts
from vocab.errors import ChangesTooLargeError, ListTooLargeError
from vocab.options import DEFAULT_OPTIONS

BODY = Limits().max_body_bytes
MAX_ARTEFACT_BYTES = 45 * 2**20
"""``MAX_OWN_NODES`` with 29 bytes each, the words, and what a large list has besides."""

MARKS = "!?.,;:-_+*/=&"
SHORT_WORDS = ["a", "be", "to", "of", "in", "it", "is", "on", "at", "by", "we", "he", "do"]
RUNS = tuple(map("".join, product(MARKS, repeat=3)))
SIX_MARKS = tuple(left + "a" + right for left in RUNS[::10] for right in RUNS[::10])


def at_random(letters: str, length: int) -> tuple[str, ...]:
    """As many words as a body holds."""
    rng, size = random.Random(length), len(letters[-1].encode()) * length + 3
    return tuple("".join(rng.choices(letters, k=length)) for _ in range(min(BODY // size, 50_000)))


LISTS = {
    "marks": (RUNS, None, True),
    "phrases": (tuple(map(" ".join, product(SHORT_WORDS, repeat=3))), None, True),
    "marks behind": (tuple("a" + run for run in RUNS), None, False),
    "marks before": (tuple(run + "a" for run in RUNS), None, False),
    "marks around": (SIX_MARKS[:15_000], "en", False),
    "longer and longer marks": (tuple("a" + "!" * number for number in range(1, 100)), None, False),
    "marks of other lists' length": (tuple("a" + word for word in at_random(MARKS, 99)), None, False),
    "letters": (at_random("abcdefghijklmnopqrstuvwxyz", 17), "en", False),
    "long words": (at_random("abcdefghijklmnopqrstuvwxyz", 100), None, False),
    "apostrophes": (at_random("aeiouh'’", 17), "fr", False),
    "scripts": (at_random("aаאअᄀ", 4), None, True),
    "one letter": (tuple(map(chr, range(0x4E00, 0x9000))), None, True),
}
"""By name: the words, their language, whether they are a list."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[CompileProcess]:
    process = CompileProcess(replace(toy_command(folder), max_bytes=2**30).arguments(), max_memory_bytes=10**9)
    process.wait_until_ready()
    yield process
    process.reap()


@pytest.mark.fault(29, 57)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_compiled_or_refused_cheaply(process: CompileProcess, folder: Path, name: str) -> None:
    words, lang, is_list = LISTS[name]
    # More time or memory raises here, and the process is gone.
    reply = process.ask(CompileList(lang, words), 120, MAX_CPU_S)
    if reply.compiled is not None:
        digest = reply.compiled.digest
        assert len(ArtefactStore(folder, 2**30).read_bytes(digest)) <= MAX_ARTEFACT_BYTES
        reply = process.ask(MeasureTexts(digest, None, DEFAULT_OPTIONS, len(words)), 120, MAX_CPU_S)
    assert (reply.error is None) == is_list
    assert is_list or isinstance(reply.error, ListTooLargeError)


def test_words_added_are_bounded_as_well(process: CompileProcess) -> None:
    base = process.ask(CompileList("en", ("the", "cat")), 120).compiled
    assert base is not None
    reply = process.ask(ChangeList(base.digest, extra_words=SIX_MARKS[:1000]), 120, MAX_CPU_S)
    assert isinstance(reply.error, ChangesTooLargeError)
    changed = process.ask(ChangeList(base.digest, extra_words=SIX_MARKS[:400]), 120, MAX_CPU_S).compiled
    assert changed is not None
    reply = process.ask(MeasureTexts(base.digest, changed.digest, DEFAULT_OPTIONS, 2), 120, MAX_CPU_S)
    assert isinstance(reply.error, ChangesTooLargeError)
