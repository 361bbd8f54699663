"""Many different lists of clients, through the real compile processes and an engine's cache: nothing grows."""

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.settings.service import Settings
from deployments.vocabulary.compile_pool import CompileLimits, CompilePool
from deployments.vocabulary.deployment import Vocabulary
from tests.deployments.processes import is_gone
from vocab.automaton.tokenizer import load_speller
from vocab.compiler.child_process import resident_bytes
from vocab.compiler.compile_process import WorkerCommand
from vocab.lists.wordlists import load_word_list
from vocab.matching.engine_cache import EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference

pytestmark = pytest.mark.e2e

AT_ONCE = 64
WORDS_EACH = 20
STORE_BYTES = 16 * 2**20
CACHE_BYTES = 16 * 2**20
MAX_CACHED = 256
MEMORY_BYTES = 2**30
NUM_TO_FILL = 200
"""Lists after which every cache is full."""


class World:
    """A vocabulary over real processes, and the engine's side of its artefacts."""

    def __init__(self, folder: Path, model: Path) -> None:
        settings = Settings.load(
            {
                "secret_token": "k",
                "artefact_dir": str(folder),
                "artefact_bytes": STORE_BYTES,
                "max_cached_vocabularies": MAX_CACHED,
            },
            {},
        )
        self.compiler = CompilePool(
            WorkerCommand(folder, STORE_BYTES, model=str(model)), CompileLimits(max_memory_bytes=MEMORY_BYTES)
        )
        tokenizer = load_speller(str(model)).facts
        self.cache = EngineCache(folder, tokenizer, CACHE_BYTES)
        self.row = np.zeros((len(tokenizer) + 31) // 32, dtype=np.int32)
        self.folder = folder
        self.settings = settings
        self.vocabulary: Vocabulary
        self.most_on_disk = 0
        self.pids: set[int] = set()

    async def start(self) -> None:
        self.vocabulary = await Vocabulary.create(self.settings, compiler=self.compiler)

    async def use(self, spec: VocabularySpec) -> ResolvedVocabulary:
        """What a request does with a list up to its first mask."""
        resolved = await self.vocabulary.resolve(spec)
        reference = GrammarReference(
            resolved.digest, resolved.options, resolved.n_words, 100, changes=resolved.changes_digest
        )
        Matcher(self.cache.states(reference), [2], 100).fill_bitmask(self.row)
        return resolved

    def look(self) -> None:
        on_disk = sum(path.stat().st_size for path in self.folder.iterdir() if path.suffix == ".safetensors")
        self.most_on_disk = max(self.most_on_disk, on_disk)
        self.pids.update(self.compiler.pids())


@pytest.fixture
async def world(tmp_path: Path, smollm2_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "artefacts", smollm2_path)
    await world.start()
    yield world
    await world.vocabulary.close()
    assert all(is_gone(pid) for pid in world.pids)


@pytest.mark.fault(31)
@pytest.mark.parametrize(
    "num_lists",
    [
        pytest.param(200, marks=[pytest.mark.slow, pytest.mark.parallel]),
        pytest.param(10_000, marks=pytest.mark.stress),
    ],
)
async def test_many_lists_stay_within_all_bounds(world: World, num_lists: int) -> None:
    words = load_word_list("en", None).words[:20_000]
    chance = random.Random(20)
    start, resident = time.monotonic(), 0
    digests: set[str] = set()
    for first in range(0, num_lists, AT_ONCE):
        count = min(AT_ONCE, num_lists - first)
        specs = [VocabularySpec(lang="en", words=tuple(chance.sample(words, WORDS_EACH))) for _ in range(count)]
        digests.update(one.digest for one in await asyncio.gather(*map(world.use, specs)))
        world.look()
        if first <= NUM_TO_FILL < first + AT_ONCE:
            gc.collect()
            resident = resident_bytes()
    gc.collect()
    stats = await world.vocabulary.stats()
    grown = resident_bytes() - resident
    seconds = time.monotonic() - start
    print(
        f"\n{num_lists} lists in {seconds:.0f} s; at most {world.most_on_disk / 1e6:.0f} MB on disk, "
        f"{world.cache.num_bytes / 1e6:.0f} MB in the engine's cache, {grown / 1e6:+.0f} MB of memory since the caches "
        f"were full, {len(world.pids)} compile processes of {[resident_bytes(pid) // 10**6 for pid in world.pids]} MB; "
        f"{stats}"
    )
    assert len(digests) == stats["num_compiles"] == num_lists
    assert stats["num_cached"] <= MAX_CACHED
    assert world.most_on_disk <= 2 * STORE_BYTES
    assert world.cache.num_bytes <= CACHE_BYTES
    assert grown < 100 * 2**20
    assert all(resident_bytes(pid) < MEMORY_BYTES // 2 for pid in world.pids)
