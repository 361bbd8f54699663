"""The vocabulary deployment where xgrammar makes the masks: it compiles the grammars, and nobody else does."""

import asyncio
from pathlib import Path

import pytest

from deployments.errors import to_api_error
from deployments.vocabulary.compile_pool import CompileLimits, CompilePool
from tests.deployments.processes import MAX_BYTES, make_kernels
from tests.deployments.vocabulary.world import Lists, numbers, own
from vocab.artefacts.store import ArtefactStore
from vocab.compiler import grammars
from vocab.compiler.compile_process import WorkerCommand
from vocab.compiler.jobs import CompileGrammar, CompileList, MeasureTexts
from vocab.errors import ListTooLargeError, SegmentationError
from vocab.options import ListOptions

XGRAMMAR = {"mask_engine": "xgrammar"}
OTHERS: dict[str, object] = {"n_words": 2, "numbers": True, "extra_words": ["Ann"]}


async def test_a_vocabulary_has_a_grammar_where_xgrammar_makes_the_masks(world: Lists) -> None:
    plain = await (await world.vocabulary()).resolve(own("the", "cat"))
    assert plain.grammar_digest is None
    set_to = await (await world.vocabulary(**XGRAMMAR)).resolve(own("the", "cat"))
    # As of a tokenizer without a fast implementation.
    world.speller.is_own = False
    taken = await (await world.vocabulary()).resolve(own("the", "cat"))
    assert set_to.grammar_digest == taken.grammar_digest is not None
    for resolved in (set_to, taken):
        assert resolved.digests == (plain.digest, resolved.grammar_digest)
        assert (resolved.id, resolved.fewest_tokens) == (plain.id, plain.fewest_tokens)


async def test_grammars_are_compiled_once_for_all_callers_and_found_again(world: Lists) -> None:
    vocabulary = await world.vocabulary(**XGRAMMAR)
    several = await asyncio.gather(*(vocabulary.resolve(own("the", "cat", "dog")) for _ in range(8)))
    assert len({one.grammar_digest for one in several}) == 1
    assert await numbers(vocabulary) == (2, 0)
    others = [own("the", "cat", "dog", **{name: value}) for name, value in OTHERS.items()]
    digests = {(await vocabulary.resolve(one)).grammar_digest for one in others}
    assert len(digests | {several[0].grammar_digest}) == 4
    # More than there are have the grammar of all.
    more = await vocabulary.resolve(own("the", "cat", "dog", n_words=9))
    assert more == several[0]
    assert more.grammar_digest is not None
    assert await vocabulary.fetch(more.grammar_digest)
    again = await world.vocabulary(**XGRAMMAR)
    assert await again.resolve(own("the", "cat", "dog")) == several[0]
    assert await numbers(again) == (0, 2)
    ArtefactStore(world.artefacts, MAX_BYTES).discard(more.grammar_digest)
    assert await again.resolve(own("the", "cat", "dog")) == several[0]
    assert await numbers(again) == (1, 2)


async def test_what_no_grammar_can_be_is_refused(world: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = await world.vocabulary(**XGRAMMAR)
    with pytest.raises(SegmentationError, match="'any'") as refused:
        await vocabulary.resolve(own("我们", "去", lang="zh"))
    error = to_api_error(refused.value, "request")
    assert (error.status, error.param) == (400, "vocab.segmentation")
    assert (await vocabulary.resolve(own("我们", "去", lang="zh", segmentation="any"))).grammar_digest

    def too_large(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(grammars, "in_fork", too_large)
    for _ in range(2):
        with pytest.raises(ListTooLargeError, match="fewer words") as refusal:
            await vocabulary.resolve(own("the", "dog"))
    assert to_api_error(refusal.value, "request").status == 400
    assert sum(isinstance(job, CompileGrammar) for job in world.compiler.jobs) == 3, "a refusal is remembered"


async def test_grammars_have_a_process_of_their_own(smollm2_path: Path, tmp_path: Path) -> None:
    make_kernels()
    pool = CompilePool(WorkerCommand(tmp_path, MAX_BYTES, model=str(smollm2_path)), CompileLimits())
    try:
        await pool.warm_up()
        listed = await pool.compile(CompileList("en", ("the", "cat")))
        [short] = pool.pids()
        compiled = await pool.compile(CompileGrammar(MeasureTexts(listed.digest, None, ListOptions(), 2)))
        assert not compiled.was_stored
        assert ArtefactStore(tmp_path, MAX_BYTES).has(compiled.digest)
        assert len(pool.pids()) == 2 and short in pool.pids()
    finally:
        await pool.close()
