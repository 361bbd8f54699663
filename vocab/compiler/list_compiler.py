"""Run the jobs of a compile process: find a list's artefact in the store, or make it."""

import hashlib
import logging
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
from cachetools import LRUCache

from vocab.arrays.tensors import read_tensors, write_tensors
from vocab.artefacts.store import ArtefactStore
from vocab.artefacts.stored_tokenizer import stored_trie
from vocab.automaton.automaton import TokenAutomaton, artefact_digest, compile_automaton
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler.jobs import Compiled, CompileList, CompileWithout, Job, Reply
from vocab.errors import ArtefactError, CompileError, EmptyWordListError, VocabularyError
from vocab.exclusion.exclusion import Exclusion, exclude, exclusion_digest
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import WordList, inline_word_list, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import entries_left_out
from vocab.text.forms import resolve_case

MAX_LISTS: Final = 2
"""Built-in lists kept as words, 30 to 60 MB each: options are often tried on the same one."""

MAX_ARTEFACTS: Final = 8
"""Artefacts kept mapped, to leave words out of them."""

MAX_DROPPED_SHOWN: Final = 10

_GROUPING_VERSION: Final = 1
"""Incremented when ``vocab.lists.lemmas`` groups differently."""

logger = logging.getLogger(__name__)


class ListCompiler:
    """Compile for one tokenizer into one store, keeping a few lists and artefacts used last."""

    def __init__(self, tokenizer: TokenizerFacts, store: ArtefactStore, wordlist_dir: Path | None = None) -> None:
        self._tokenizer = tokenizer
        self._trie = stored_trie(tokenizer, store)
        self._store = store
        self._wordlist_dir = wordlist_dir
        self._lists = LRUCache[tuple[str, str], WordList](MAX_LISTS)
        self._artefacts = LRUCache[str, TokenAutomaton](MAX_ARTEFACTS)

    def run(self, job: Job) -> Reply:
        """Run a job; any error is in the reply."""
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
        return reply.with_seconds(time.monotonic() - start)

    def _run(self, job: Job) -> Reply:
        if isinstance(job, CompileList):
            return Reply(self._compiled(self._word_list(job), job.options))
        automaton = self._artefact(job.digest)
        entries = entries_left_out(automaton.word_list, job.words)
        if isinstance(job, CompileWithout):
            options = job.options or automaton.options
            if not entries:
                return Reply(self._compiled(automaton.word_list, options))
            # Resolved before words are left out: they may be all that have capitals.
            options = replace(options, case=resolve_case(automaton.word_list, options))
            return Reply(self._compiled(_shortened(automaton.word_list, entries), options))
        return Reply(self._excluded(automaton, entries) if entries else _described(automaton, was_stored=True))

    def _word_list(self, job: CompileList) -> WordList:
        if job.words is not None:
            return inline_word_list(job.words, job.lang)
        name, unit = job.lang or "", job.unit
        word_list = self._lists.get((name, unit))
        if word_list is None or self._is_file(name):
            word_list = load_word_list(name, self._wordlist_dir)
            if unit == "lemma":
                word_list = grouped_by_lemma(word_list, self._store)
            if word_list.source == "wordfreq":
                self._lists[name, unit] = word_list
        return word_list

    def _is_file(self, name: str) -> bool:
        folder = self._wordlist_dir
        return folder is not None and folder.is_dir() and any(path.stem == name for path in folder.iterdir())

    def _compiled(self, word_list: WordList, options: ListOptions) -> Compiled:
        digest = artefact_digest(word_list, options, self._tokenizer)
        if (stored := self._store.find(digest, self._store.load)) is not None:
            return _described(stored, was_stored=True)
        automaton = compile_automaton(word_list, options, self._tokenizer, self._trie)
        self._store.save(automaton)
        return _described(automaton, was_stored=False)

    def _excluded(self, automaton: TokenAutomaton, entries: tuple[str, ...]) -> Compiled | None:
        digest = exclusion_digest(automaton.digest, entries)
        exclusion = self._store.find(digest, self._load_exclusion)
        was_stored = exclusion is not None
        if exclusion is None:
            exclusion = exclude(automaton, entries, self._tokenizer, self._trie)
            if exclusion is None:
                return None
            self._store.write_bytes(digest, exclusion.to_bytes(), is_new=True)
        return replace(_described(exclusion.apply(automaton), was_stored=was_stored), digest=digest)

    def _load_exclusion(self, digest: str) -> Exclusion:
        exclusion = Exclusion.from_bytes(self._store.read_bytes(digest))
        if exclusion.digest != digest:
            raise ArtefactError(f"the file of exclusion {digest} holds another one")
        return exclusion

    def _artefact(self, digest: str) -> TokenAutomaton:
        automaton = self._artefacts.get(digest)
        if automaton is None:
            automaton = self._store.find(digest, self._store.load)
            if automaton is None:
                raise ArtefactError(f"the artefact {digest} is gone")
            self._artefacts[digest] = automaton
        return automaton


def grouped_by_lemma(word_list: WordList, store: ArtefactStore) -> WordList:
    """Rank a list by lemma, from its file, or now with ``group_by_lemma`` and stored.

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


def _shortened(word_list: WordList, entries: tuple[str, ...]) -> WordList:
    """Return the list without some words; all others keep their rank."""
    left_out = frozenset(entries)
    kept = [(rank, word) for rank, word in word_list.ranked() if word not in left_out]
    if not kept:
        raise EmptyWordListError("exclude_words leaves no word of the list: leave fewer out.")
    return replace(word_list, words=tuple(word for _, word in kept), ranks=tuple(rank for rank, _ in kept))


def _described(automaton: TokenAutomaton, *, was_stored: bool) -> Compiled:
    distances, start = automaton.distances, automaton.edges.start
    first, last = (int(distances.pair_start[state]) for state in (start, start + 1))
    return Compiled(
        digest=automaton.digest,
        num_ranks=automaton.words.num_ranks,
        fewest_tokens=tuple(
            zip(distances.num_tokens[first:last].tolist(), distances.ranks[first:last].tolist(), strict=True)
        ),
        num_words=automaton.words.num_words,
        num_dropped=len(automaton.dropped_words),
        dropped_words=automaton.dropped_words[:MAX_DROPPED_SHOWN],
        was_stored=was_stored,
    )
