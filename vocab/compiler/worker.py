"""The compile process: ``python -m vocab.compiler.worker``.

It says for which tokenizer it is ready, then that it started a job, and the reply (``vocab.compiler.jobs``). It ends
with its pipe and with its parent. The parent watches deadlines and memory: this process may be killed at any time, and
leaves at most a temporary file.

The tokenizer is stored as a file, so that a process needs neither the model's folder nor the libraries that read it.

A job's artefact is found in the store, or made (``ListCompiler``).
"""

import ctypes
import gc
import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np
from cachetools import LRUCache

from vocab.artefacts.artefact import overlay_to_bytes, read_tensors, write_tensors
from vocab.artefacts.grammar import load_grammar
from vocab.artefacts.store import ArtefactStore, SharedStore, load_stored_tokenizer, store_tokenizer
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import overlay_digest
from vocab.automaton.tokenizer import Speller, TokenizerFacts, load_speller
from vocab.compiler.child_process import (
    connect_to_parent,
    die_with_parent,
    end_with_pipe,
    receive_jobs,
    resident_bytes,
)
from vocab.compiler.compile_process import WorkerCommand
from vocab.compiler.grammars import GrammarCompiler
from vocab.compiler.jobs import (
    FIRST_WORDS,
    ChangeList,
    Compiled,
    CompileGrammar,
    CompileList,
    Job,
    MeasureTexts,
    Reply,
)
from vocab.compiler.warm_up import warm_up
from vocab.errors import ArtefactError, ChangesTooLargeError, CompileError, ListTooLargeError, VocabularyError
from vocab.lists.lemmas import group_by_lemma, rank_by_lemma
from vocab.lists.wordlists import OWN_SOURCES, WordList, inline_word_list, load_word_list, paths_in
from vocab.matching.list_kinds import StatesMaker, change_list, list_builder
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out

MAX_LISTS: Final = 2
"""Built-in lists cached as words, about 10 MB each; Korean, of 1.1 million forms, has 113 MB."""

MAX_ARTEFACTS: Final = 8
"""Artefacts cached as mapped files, to change and measure them."""

FIRST_FORMS: Final = 400_000
"""Those of the first thousand Korean stems; all take a minute and 2.6 GB to compile."""

MAX_DROPPED_SHOWN: Final = 10

_GROUPING_VERSION: Final = 1
"""Incremented when ``vocab.lists.lemmas`` groups differently."""

logger = logging.getLogger(__name__)


class ListCompiler:
    """Compile for one tokenizer into one store, keeping a few lists and artefacts used last.

    ``make_grammars`` makes the compiler of grammars, when the first is asked for.
    """

    def __init__(
        self,
        speller: Speller,
        store: ArtefactStore,
        wordlist_dir: Path | None = None,
        make_grammars: Callable[[], GrammarCompiler] | None = None,
    ) -> None:
        self._speller = speller
        self._store = store
        self._wordlist_dir = wordlist_dir
        self._states = StatesMaker(speller.facts)
        self._make_grammars = make_grammars
        self._lists = LRUCache[Hashable, WordList](MAX_LISTS)
        self._artefacts = LRUCache[str, CompiledList](MAX_ARTEFACTS)

    def run(self, job: Job) -> Reply:
        """Run a job of the compile process; any error is in the reply, not raised."""
        start = time.monotonic()
        try:
            reply = self._run(job)
        except VocabularyError as error:
            return Reply(error=error)
        except MemoryError:
            return Reply(error=CompileError("the list needs more memory than there is"))
        except Exception:
            logger.exception("a job failed")
            return Reply(error=CompileError("the list could not be compiled; the service's log says why"))
        if reply.compiled is None:
            return reply
        return replace(reply, compiled=replace(reply.compiled, seconds=time.monotonic() - start))

    @property
    def tokenizer_digest(self) -> str:
        return self._speller.digest

    def _run(self, job: Job) -> Reply:
        """Run a job by its kind: compile a list, change one, compile its grammar, or measure its shortest text."""
        if isinstance(job, CompileList):
            return Reply(self._compile(self._word_list(job), is_whole=job.is_whole))
        if isinstance(job, CompileGrammar):
            return Reply(self._compile_grammar(job.texts))
        words = self._words(job.digest)
        try:
            if isinstance(job, ChangeList):
                return Reply(self._change(words, ListChanges(job.extra_words, job.exclude_words)))
            return Reply(fewest_tokens=self._fewest_tokens(words, job))
        except ListTooLargeError as error:
            if isinstance(job, MeasureTexts) and job.changes is None:
                raise
            raise ChangesTooLargeError(f"With the words added and left out: {error}") from None

    def _word_list(self, job: CompileList) -> WordList:
        """Return the list that a job names, or make one of its words; built-in lists are cached."""
        if job.words is not None:
            own = inline_word_list(job.words, job.lang)
            return rank_by_lemma(own) if job.unit == "lemma" else own
        name = job.lang or ""
        key = name, job.unit, job.safe
        word_list = self._lists.get(key)
        if word_list is None or self._is_file(name):
            word_list = load_word_list(name, self._wordlist_dir, safe=job.safe)
            if job.unit == "lemma":
                is_own = word_list.source in OWN_SOURCES
                word_list = rank_by_lemma(word_list) if is_own else group_list_by_lemma(word_list, self._store)
            if word_list.source != "file":
                self._lists[key] = word_list
        return word_list

    def _is_file(self, name: str) -> bool:
        """Return whether the folder of list files has one of this name."""
        return any(path.stem == name for path in paths_in(self._wordlist_dir))

    def _compile(self, word_list: WordList, *, is_whole: bool) -> Compiled:
        """Load a list's artefact from the store, or build and store it."""
        has_capitals, num_ranks = word_list.has_capitals, word_list.num_ranks
        word_list = word_list if is_whole else first_part(word_list)
        digest, build = list_builder(word_list, self._speller, has_capitals=has_capitals)
        words = self._store.find(digest, self._store.load)
        was_stored = words is not None
        if words is None:
            words = build()
            self._store.save(words)
        # What answers are read by; it does not depend on the tokenizer, and stays where another list has the words.
        self._store.table_of(words.listed.word_list)
        listed = words.listed
        return Compiled(
            digest=digest,
            num_ranks=listed.num_ranks + num_ranks - word_list.num_ranks,
            source=word_list.source,
            num_ranks_here=listed.num_ranks,
            num_words=listed.num_words,
            num_dropped=len(words.dropped_words),
            dropped_words=words.dropped_words[:MAX_DROPPED_SHOWN],
            was_stored=was_stored,
            has_own_spelling=self._speller.is_own,
        )

    def _change(self, words: CompiledList, asked: ListChanges) -> Compiled:
        """Load the overlay of a list's changes from the store, or build and store it."""
        left_out = entries_left_out(words.listed.word_list, asked.exclude_words)
        changes = ListChanges(asked.extra_words, left_out)
        if not changes:
            return Compiled("", words.listed.num_ranks, was_stored=True)
        digest = overlay_digest(words.digest, changes)
        overlay = self._store.find(digest, self._store.load_overlay)
        was_stored = overlay is not None
        if overlay is None:
            overlay = change_list(words, changes, self._speller)
            self._store.write_bytes(digest, overlay_to_bytes(overlay), is_new=True)
        return Compiled(
            digest,
            words.listed.num_ranks,
            num_words=len(overlay.changes.extra_words),
            num_dropped=len(overlay.dropped_words),
            dropped_words=overlay.dropped_words[:MAX_DROPPED_SHOWN],
            was_stored=was_stored,
        )

    @cached_property
    def _grammars(self) -> GrammarCompiler:
        if self._make_grammars is None:
            raise CompileError("there is no model whose tokenizer xgrammar could read")
        return self._make_grammars()

    def _compile_grammar(self, texts: MeasureTexts) -> Compiled:
        """Load the grammar of a list's texts from the store, or compile and store it."""
        digest, words = self._grammars.digest(texts), self._words(texts.digest)
        was_stored = self._store.find(digest, partial(load_grammar, self._store)) is not None
        if not was_stored:
            changes = NO_CHANGES if texts.changes is None else self._store.load_overlay(texts.changes).changes
            self._store.write_bytes(digest, self._grammars.compile(words, changes, texts), is_new=True)
        return Compiled(digest, words.listed.num_ranks, num_words=texts.n_words, was_stored=was_stored)

    def _fewest_tokens(self, words: CompiledList, job: MeasureTexts) -> int | None:
        """Return how many tokens the shortest text of a list has; None where there is no text."""
        overlay = None if job.changes is None else self._store.load_overlay(job.changes)
        return self._states.states(words, overlay, job.options, job.n_words).fewest_tokens()

    def _words(self, digest: str) -> CompiledList:
        """Load a list's artefact from the store, cached; raise ``ArtefactError`` where it is gone."""
        words = self._artefacts.get(digest)
        if words is None:
            words = self._store.find(digest, self._store.load)
            if words is None:
                raise ArtefactError(f"the artefact {digest} is gone")
            self._artefacts[digest] = words
        return words


def first_part(word_list: WordList) -> WordList:
    """Return the first ``FIRST_WORDS`` ranks of a list; of words that share ranks, at most ``FIRST_FORMS`` words."""
    ranks, num_ranks = word_list.ranks, FIRST_WORDS
    if ranks is not None and len(ranks) > FIRST_FORMS:
        num_ranks = min(num_ranks, max(1, ranks[FIRST_FORMS] - 1))
    return word_list.needed_up_to(num_ranks)


def group_list_by_lemma(word_list: WordList, store: ArtefactStore) -> WordList:
    """Rank a list by lemma: load the stored ranks, or compute them with ``group_by_lemma`` and store them.

    Raises:
        NoLemmasError: simplemma has no dictionary of the language.
        ArtefactError: The file cannot be written.
    """
    facts = f"lemmas {_GROUPING_VERSION} of {word_list.digest} by simplemma {version('simplemma')}"
    digest = hashlib.sha256(facts.encode()).hexdigest()

    def load(digest: str) -> WordList:
        arrays, metadata = read_tensors(store.read_bytes(digest))
        if metadata["list"] != word_list.digest:
            raise ArtefactError(f"the file {digest} holds the lemmas of another list")
        return WordList(
            word_list.lang,
            tuple(word_list.words[index] for index in arrays["places"].tolist()),
            word_list.source,
            tuple(arrays["ranks"].tolist()),
        )

    grouped = store.find(digest, load)
    if grouped is None:
        grouped = group_by_lemma(word_list)
        index_of = {word: index for index, word in enumerate(word_list.words)}
        arrays = {
            "places": np.array([index_of[word] for word in grouped.words], dtype=np.int32),
            "ranks": np.array(grouped.ranks, dtype=np.int32),
        }
        store.write_bytes(digest, write_tensors(arrays, {"list": word_list.digest}), is_new=True)
    return grouped


SCATTERED_BYTES: Final = 2**26
"""What jobs may leave before it is given back, which takes 10 ms and more. A large list leaves 100 to 200 MB."""


def main(argument: str) -> None:
    """Run the compile process of a ``WorkerCommand``: jobs come through its pipe, and replies go back."""
    command = WorkerCommand.parse(argument)
    connection = connect_to_parent()
    logging.basicConfig(level=logging.INFO, format="wordbound compiler: %(message)s")
    shared = SharedStore(command.shared_url, command.shared_bytes) if command.shared_url else None
    store = ArtefactStore(command.folder, command.max_bytes, shared)
    make_grammars = None
    if command.model is not None:
        trust = command.trust_remote_code
        make_grammars = partial(GrammarCompiler.for_model, command.model, trust_remote_code=trust)
    compiler = ListCompiler(_speller_of(command, store), store, command.wordlist_dir, make_grammars)
    warm_up()
    end_with_pipe()
    # A job makes millions of objects and no circles of them: looking for circles takes a third of its time.
    gc.disable()
    connection.send(compiler.tokenizer_digest)
    # The parent may be gone when it is answered.
    with suppress(ConnectionError):
        serve(receive_jobs(connection), compiler, store, connection.send)
    # Threads that wait for a shared store must not keep the process alive.
    os._exit(0)


def serve(
    jobs: Iterable[Job], compiler: ListCompiler, store: ArtefactStore, send: Callable[[str | Reply], None]
) -> None:
    """Run jobs in order and reply to each; share new artefacts and free memory after each reply."""
    kept_bytes = resident_bytes()
    for job in jobs:
        send("started")
        reply = compiler.run(job)
        send(replace(reply, resident_bytes=resident_bytes()))
        store.share()
        gc.collect()
        if resident_bytes() > kept_bytes + SCATTERED_BYTES:
            give_memory_back()
            kept_bytes = resident_bytes()


def give_memory_back() -> None:
    """Return freed memory to the system, which glibc keeps where it is scattered: the next job would come on top."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _speller_of(command: WorkerCommand, store: ArtefactStore) -> Speller:
    """Load the tokenizer that an earlier process stored, or read the model's and store it."""
    if command.tokenizer is not None:
        stored = store.find(command.tokenizer, lambda digest: load_stored_tokenizer(digest, store))
        if stored is not None:
            return stored
    if command.model is None:
        raise SystemExit("there is no stored tokenizer of that digest, and no model to read it from")
    # In a fork: the libraries that read it keep 250 MB, which no compile needs.
    with ProcessPoolExecutor(1, get_context("fork"), die_with_parent) as reader:
        facts, rules, is_own = reader.submit(_read_tokenizer, command.model, command.trust_remote_code).result()
    speller = Speller.from_rules(rules, facts, is_own=is_own)
    store_tokenizer(speller, store)
    return speller


def _read_tokenizer(model: str, trust_remote_code: bool) -> tuple[TokenizerFacts, str, bool]:
    speller = load_speller(model, trust_remote_code=trust_remote_code)
    return speller.facts, speller.rules, speller.is_own


if __name__ == "__main__":
    main(sys.argv[1])
