"""The vocabulary deployment: resolve the vocabularies of requests to compiled artefacts, each made once.

Callers who want the same list wait for the same compile; a compile that fails fails its callers alone, and one that all
of them have left does not begin. A list that cannot be used is remembered as such. Only the
digest and a few numbers of each list are kept in memory. List files are watched, and artefacts are sent to other
nodes.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Self

from cachetools import LRUCache
from limits import RateLimitItemPerHour

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.errors import OverloadedError
from deployments.metrics import COMPILE_SECONDS, LISTS
from deployments.process_setup import run_ready_hook, set_up_process
from deployments.rates import IN_MEMORY, Rates
from deployments.settings.keys import NO_OWNER
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.compile_pool import CompileJob, CompileLimits, CompilePool
from deployments.vocabulary.queries import ListQueries, Question, Stamp, stamp_of
from vocab.artefacts.store import ArtefactStore, SharedStore
from vocab.compiler.compile_process import WorkerCommand
from vocab.compiler.jobs import FIRST_WORDS, ChangeList, Compiled, CompileGrammar, CompileList, MeasureTexts
from vocab.errors import CompileQueueError, EmptyWordListError, VocabularyError, WordListError
from vocab.lists.wordlists import paths_in

logger = logging.getLogger("ray.serve")

MAX_LAST_GOOD: Final = 256
"""List files whose last usable version is remembered."""


@dataclass(frozen=True, slots=True)
class _LastGood:
    """The last usable version of a list file, and the stamp of the newest version seen."""

    compiled: Compiled
    seen: Stamp


class Vocabulary:
    """Resolves vocabularies to compiled artefacts. Every method may be called concurrently."""

    def __init__(self, settings: Settings, store: ArtefactStore, compiler: CompilePool) -> None:
        self._settings = settings
        self._store = store
        self._compiler = compiler
        self.lists = ListQueries(settings.wordlist_dir, settings.limits)
        self._known = SingleFlight(settings.max_cached_vocabularies, cancels_unwanted=True)
        self._measured = SingleFlight(settings.max_cached_vocabularies, cancels_unwanted=True)
        self._last_good: LRUCache[Hashable, _LastGood] = LRUCache(MAX_LAST_GOOD)
        self._counts = {"num_compiles": 0, "num_loaded": 0}
        # There is one deployment of vocabularies, with one replica.
        self._rates = Rates(IN_MEMORY)

    @classmethod
    async def create(cls, settings: Settings, *, compiler: CompilePool | None = None) -> Self:
        """Open the store, start the compiler, and compile the lists of ``prebuild_langs``.

        Raises:
            WordListFolderError: The folder of list files is not on this node.
        """
        set_up_process(settings)
        await asyncio.to_thread(paths_in, settings.wordlist_dir)
        shared = None
        if settings.artefact_store is not None:
            shared = SharedStore(settings.artefact_store, settings.artefact_store_bytes)
        store = await asyncio.to_thread(
            ArtefactStore, settings.resolved_artefact_dir(), settings.artefact_bytes, shared
        )
        created = cls(settings, store, compiler or _compile_pool(settings))
        await created._compiler.warm_up()
        for lang, n_words in product(settings.prebuild_langs, settings.prebuilt_counts):
            await created._list(VocabularySpec(lang=lang, n_words=n_words).resolve(settings.wordlist_dir), NO_OWNER)
        return created

    async def resolve(self, spec: VocabularySpec, owner: str = NO_OWNER) -> ResolvedVocabulary:
        """Return the artefacts of a vocabulary, compiled where they are new, in a turn of ``owner``.

        Raises:
            WordListError: The list cannot be used.
            CompileError: It could not be compiled; CompileTimeoutError where it took too long,
                CompileQueueError where too much of the owner waits.
            OptionsError: A grammar cannot say what they ask for, where xgrammar makes the masks.
            ArtefactError: Its artefact could not be written.
            OverloadedError: Too much of the owner waits for the prompt's words.
        """
        asked, spec = spec, await asyncio.to_thread(spec.resolve, self._settings.wordlist_dir)
        prompt_words = None if spec.prompt is None else await self.lists.prompt_words(spec, owner)
        spec = spec.with_words_of_prompt(prompt_words or ())
        base = await self._list(spec, owner)
        changes = await self._changes(base, spec, owner)
        n_words = min(spec.n_words or base.num_ranks, base.num_ranks)
        measure = MeasureTexts(base.digest, changes, spec.options, n_words)
        fewest = await self._measured.get(
            measure, lambda: self._compiler.measure(measure, owner), cached_errors=WordListError
        )
        if fewest is None:
            raise EmptyWordListError(
                f"The tokenizer of this model can spell no text of the first {n_words} words of this list, without "
                "those left out: ask for more words."
            )
        grammar = None
        if self._settings.mask_engine == "xgrammar" or not base.has_own_spelling:
            grammar = (await self._compile(measure, CompileGrammar(measure), owner)).digest
        return ResolvedVocabulary(
            digest=base.digest,
            changes_digest=changes,
            grammar_digest=grammar,
            options=spec.options,
            lang=spec.lang,
            # The words of a level come from its file.
            source="file" if asked.words is None and spec.words is not None else base.source,
            n_words=n_words,
            unit=spec.unit,
            fewest_tokens=max(fewest, 1),
            prompt_words=prompt_words,
        )

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str = NO_OWNER) -> ResolvedVocabulary | Exception:
        """Like ``resolve``, but return the error: one that is raised fills Serve's log with tracebacks."""
        try:
            return await self.resolve(spec, owner)
        except (VocabularyError, OverloadedError) as error:
            return error.with_traceback(None)

    async def fetch(self, digest: str) -> bytes:
        """Return the file of an artefact, for another node.

        Raises:
            ArtefactError: There is no such artefact here.
        """
        return await asyncio.to_thread(self._store.read_bytes, digest)

    async def stats(self) -> dict[str, int]:
        """Return the lists compiled and found since the start, the lists remembered, and the bytes stored here."""
        return {
            **self._counts,
            "num_cached": len(self._known),
            "store_bytes": await asyncio.to_thread(self._store.num_bytes),
        }

    async def close(self) -> None:
        await self._compiler.close()

    async def _list(self, spec: VocabularySpec, owner: str) -> Compiled:
        """Compile a vocabulary's list, or find it; for a bad list file return its last good version."""
        if spec.words is not None or spec.lang is None:
            words = spec.words or ()
            job = CompileList(spec.lang, words, spec.unit)
            return await self._compile(("inline", spec.lang, spec.unit, _digest(words)), job, owner)
        name = (spec.lang, spec.unit)
        stamp = await asyncio.to_thread(stamp_of, spec.lang, self._settings.wordlist_dir)
        # Of a file all is made at once: it may be replaced before the rest is asked for.
        n_words = spec.n_words if spec.n_words is None else max(spec.n_words, spec.reach or 0)
        is_whole = stamp is not None or n_words is None or n_words > FIRST_WORDS
        job = CompileList(spec.lang, unit=spec.unit, safe=spec.safe, is_whole=is_whole)
        try:
            compiled = await self._compile(("list", job, stamp), job, owner)
            if not is_whole and n_words is not None and n_words > compiled.num_ranks_here:
                # Some of the first words cannot be spelled, and later ones have moved up.
                whole = replace(job, is_whole=True)
                compiled = await self._compile(("list", whole, stamp), whole, owner)
        except WordListError as error:
            good = self._last_good.get(name)
            if stamp is None or good is None or not await self._is_there(good.compiled):
                raise
            if good.seen != stamp:
                self._last_good[name] = replace(good, seen=stamp)
                logger.warning("the list %r was replaced, and its last good version serves on: %s", job.lang, error)
            return good.compiled
        if stamp is not None:
            self._last_good[name] = _LastGood(compiled, stamp)
        return compiled

    async def _changes(self, base: Compiled, spec: VocabularySpec, owner: str) -> str | None:
        if not spec.changes:
            return None
        job = ChangeList(base.digest, spec.extra_words, spec.exclude_words)
        key = ("changes", base.digest, _digest(spec.extra_words), _digest(spec.exclude_words))
        return (await self._compile(key, job, owner)).digest or None

    async def _compile(self, key: Hashable, job: CompileJob, owner: str) -> Compiled:
        """Return a compiled list, known or compiled now; a new one counts against the owner's limit."""
        if key not in self._known:
            await self._count(owner)
        else:
            LISTS.inc(tags={"found": "known"})

        async def make() -> Compiled:
            return self._count_compiled(await self._compiler.compile(job, owner))

        return await self._known.get(key, make, self._is_there, cached_errors=WordListError)

    async def _count(self, owner: str) -> None:
        """Count a new list against those that the owner may have compiled in an hour.

        Raises:
            CompileQueueError: It was one too many.
        """
        if (most := self._settings.key(owner).lists_per_hour) is None:
            return
        state = await self._rates.take("lists", most, owner, window=RateLimitItemPerHour)
        if state is not None and state.is_exceeded:
            raise CompileQueueError(
                f"This key may have {most} new lists compiled in an hour, and has had them. Use one of those again, or "
                f"try again in {state.reset_s} s.",
                state.reset_s,
            )

    def _count_compiled(self, compiled: Compiled) -> Compiled:
        """Count a compiled or stored list in the statistics, and log it; return it."""
        self._counts["num_loaded" if compiled.was_stored else "num_compiles"] += 1
        LISTS.inc(tags={"found": "stored" if compiled.was_stored else "compiled"})
        if not compiled.was_stored:
            COMPILE_SECONDS.observe(compiled.seconds)
            logger.info(
                "compiled %d words in %.2f s, artefact %s",
                compiled.num_words, compiled.seconds, compiled.digest[:12],
            )  # fmt: skip
        if compiled.num_dropped:
            logger.warning(
                "artefact %s: %d words cannot be spelled by this tokenizer and are dropped, such as %s",
                compiled.digest[:12], compiled.num_dropped, ", ".join(compiled.dropped_words),
            )  # fmt: skip
        return compiled

    async def _is_there(self, known: Compiled) -> bool:
        # It counts as a use.
        return not known.digest or await asyncio.to_thread(self._store.has, known.digest)


class VocabularyDeployment:
    """``Vocabulary`` as Serve starts and calls it."""

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]  # Serve awaits a constructor
        self._vocabulary = await Vocabulary.create(settings)
        run_ready_hook()

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary | Exception:
        return await self._vocabulary.resolve_or_refuse(spec, owner)

    async def fetch(self, digest: str) -> bytes:
        return await self._vocabulary.fetch(digest)

    async def answer_or_refuse(self, question: Question, owner: str) -> bytes | Exception:
        return await self._vocabulary.lists.answer_or_refuse(question, owner)


def _digest(words: tuple[str, ...]) -> bytes:
    return hashlib.sha256(json.dumps(words).encode()).digest()


def _compile_pool(settings: Settings) -> CompilePool:
    command = WorkerCommand(
        folder=settings.resolved_artefact_dir(),
        max_bytes=settings.artefact_bytes,
        model=settings.model_name,
        trust_remote_code=settings.trust_remote_code,
        wordlist_dir=settings.wordlist_dir,
        shared_url=settings.artefact_store,
        shared_bytes=settings.artefact_store_bytes,
    )
    limits = CompileLimits(settings.compile_deadline_s, settings.compile_memory_bytes, settings.compile_idle_s)
    return CompilePool(command, limits)
