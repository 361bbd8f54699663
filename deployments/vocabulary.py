"""The vocabulary deployment: from a list's name to a compiled artefact, made once.

It reads word lists, compiles them for the model's tokenizer, keeps the artefacts in a folder and hands them to other
nodes. Callers who want the same list wait for the same compile; one that fails fails its callers alone and is not
remembered. It knows nothing of the engine or of HTTP.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.settings import Settings
from vocab.artefact import ArtefactFolder
from vocab.automaton import TokenAutomaton, artefact_digest, compile_automaton
from vocab.errors import ArtefactError, EmptyWordListError, WordListError
from vocab.options import ListOptions
from vocab.tokenizer import TokenizerFacts, load_tokenizer_facts
from vocab.wordlists import WordList, load_word_list

logger = logging.getLogger("ray.serve")

OPTIONS = ListOptions()
"""The same for every request until a request may choose."""

_Stamp = tuple[int, int] | None
_Key = tuple[str, _Stamp]


class Vocabulary:
    """Resolves lists to artefacts. Every method may be called by many at once."""

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self,
        settings: Settings,
        *,
        facts: TokenizerFacts | None = None,
        compiler: Callable[[WordList, ListOptions, TokenizerFacts], TokenAutomaton] = compile_automaton,
    ) -> None:
        self._settings = settings
        self._compiler = compiler
        self._folder = ArtefactFolder(settings.resolved_artefact_dir())
        self._cache: OrderedDict[_Key, asyncio.Task[TokenAutomaton]] = OrderedDict()
        # A compile takes all the memory of one; the machine's cores belong to the engine.
        self._one_at_a_time = asyncio.Semaphore(1)
        self._num_compiles = 0
        if facts is None:
            facts = await asyncio.to_thread(
                load_tokenizer_facts, settings.model_name, trust_remote_code=settings.trust_remote_code
            )
        self._facts = facts
        for lang in settings.prebuild_langs:
            await self._automaton(lang)

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        """The artefact of a list, compiled if it is new.

        Raises:
            WordListError: The list cannot be used.
            CompileError: It could not be compiled.
        """
        automaton = await self._automaton(spec.lang)
        fewest = automaton.fewest_tokens(spec.n_words)
        if fewest is None:
            raise EmptyWordListError(
                f"The tokenizer of this model can spell no text of the first {spec.n_words} words of {spec.lang!r}: "
                "ask for more words."
            )
        return ResolvedVocabulary(
            digest=automaton.digest, lang=spec.lang, n_words=spec.n_words, fewest_tokens=max(fewest, 1)
        )

    async def resolve_or_refuse(self, spec: VocabularySpec) -> ResolvedVocabulary | WordListError:
        """Like ``resolve``, with a caller's mistake given back: one raised would fill Serve's log with tracebacks."""
        try:
            return await self.resolve(spec)
        except WordListError as error:
            return error

    async def fetch(self, digest: str) -> bytes:
        """The file of an artefact, for another node.

        Raises:
            ArtefactError: There is no such artefact here.
        """
        return await asyncio.to_thread(self._folder.read_bytes, digest)

    async def stats(self) -> dict[str, int]:
        return {"num_compiles": self._num_compiles, "num_cached": len(self._cache)}

    async def _automaton(self, lang: str) -> TokenAutomaton:
        key = (lang, await asyncio.to_thread(self._stamp, lang))
        task = self._cache.get(key)
        if task is not None and task.done() and not self._folder.has((await task).digest):
            logger.warning("the artefact of %r is gone from its folder; it is made again", lang)
            task = None
        if task is None:
            self._forget_older(lang)
            task = asyncio.create_task(self._load_or_compile(lang))
            self._cache[key] = task
            task.add_done_callback(lambda done: self._forget_if_failed(key, done))
        self._cache.move_to_end(key)
        while len(self._cache) > self._settings.max_cached_vocabularies:
            self._cache.popitem(last=False)
        # A caller who goes away does not take the compile from those who wait with it.
        return await asyncio.shield(task)

    def _stamp(self, lang: str) -> _Stamp:
        """Changes when the list's file does; None for a built-in list. The name is never joined to a path."""
        folder = self._settings.wordlist_dir
        if folder is None or not folder.is_dir():
            return None
        for path in folder.iterdir():
            if path.suffix == ".txt" and path.stem == lang:
                status = path.stat()
                return status.st_mtime_ns, status.st_size
        return None

    def _forget_older(self, lang: str) -> None:
        for key in [key for key in self._cache if key[0] == lang]:
            del self._cache[key]

    def _forget_if_failed(self, key: _Key, task: asyncio.Task[TokenAutomaton]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._cache.get(key) is task:
            del self._cache[key]

    async def _load_or_compile(self, lang: str) -> TokenAutomaton:
        word_list = await asyncio.to_thread(load_word_list, lang, self._settings.wordlist_dir)
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._load_or_compile_now, word_list)

    def _load_or_compile_now(self, word_list: WordList) -> TokenAutomaton:
        """Runs in a thread."""
        digest = artefact_digest(word_list, OPTIONS, self._facts)
        if self._folder.has(digest):
            try:
                return self._folder.load(digest)
            except ArtefactError as error:
                logger.warning("%s; it is made again", error)
        start = time.monotonic()
        automaton = self._compiler(word_list, OPTIONS, self._facts)
        self._folder.save(automaton)
        self._num_compiles += 1
        logger.info(
            "compiled %r: %d words in %.1f s, artefact %s",
            word_list.lang, len(automaton.word_list.words), time.monotonic() - start, automaton.digest[:12],
        )  # fmt: skip
        if automaton.dropped_words:
            logger.warning(
                "%r: %d words cannot be spelled by this tokenizer and are dropped, such as %s",
                word_list.lang, len(automaton.dropped_words), ", ".join(automaton.dropped_words[:5]),
            )  # fmt: skip
        # The mapped file shares its pages with every process of the node, and its words replace the list's.
        return self._folder.load(automaton.digest)
