"""What the lists hold, and which words of a text are in one: work for threads of the process that has the lists."""

import asyncio
import json
import os
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from cachetools import LRUCache

from deployments.contract import VocabularySpec
from deployments.errors import OverloadedError
from deployments.limits import Limits
from vocab.errors import VocabularyError
from vocab.lists.cleaned import cleaned_languages
from vocab.lists.lemmas import KnownLemmas, group_by_lemma
from vocab.lists.levels import levels_here
from vocab.lists.wordlists import (
    AskedSource,
    WordList,
    check_known,
    inline_word_list,
    known_languages,
    language_of,
    list_files,
    load_word_list,
    words_with,
)
from vocab.options import ListOptions
from vocab.text.checking.checker import ListForms, TextChecker
from vocab.text.checking.formats import Format, NamedReport, written

THREADS: Final = 2
"""They take turns, as Python's do: the second is for a short question behind a long text."""

MAX_OPEN: Final = 16
"""Questions that wait or are worked on; more are refused. A text of 2 MB takes 3 s."""

MAX_KEPT_WORDS: Final = 1_000_000
"""Words of the lists that are kept together. Costs 0.3 KB each; the longest list has 730,000."""

Stamp: TypeAlias = tuple[int, int, int] | None
"""Changes with a list's file; None for a list without one."""


class AskVocabularies(NamedTuple):
    """Which lists there are."""


class AskWords(NamedTuple):
    """Words of a list: ``limit`` of those that have ``query`` in them, behind the first ``offset``."""

    name: str
    offset: int
    limit: int
    query: str


class AskCheck(NamedTuple):
    """Which words of a text are in a list."""

    spec: VocabularySpec
    text: str
    form: Format
    new_words: tuple[str, ...] = ()
    with_words: bool = False


Question: TypeAlias = AskVocabularies | AskWords | AskCheck


class _Listed(NamedTuple):
    word_list: WordList
    forms: ListForms


class Lists:
    """Answer questions about the lists of a folder and the built-in ones."""

    def __init__(self, wordlist_dir: Path | None, limits: Limits) -> None:
        self._folder = wordlist_dir
        self._limits = limits
        self._pool = ThreadPoolExecutor(THREADS, "lists")
        self._num_open = 0
        self._kept: LRUCache[Hashable, _Listed] = LRUCache(MAX_KEPT_WORDS, lambda kept: len(kept.word_list.words))
        self._lock = Lock()

    async def tell(self, question: Question) -> bytes:
        """Return the answer as it is sent.

        Raises:
            WordListError: There is no such list, or it cannot be used.
            OptionsError: A word is both added and left out.
            OverloadedError: Too many wait.
        """
        if self._num_open >= MAX_OPEN:
            raise OverloadedError("Too many texts are being checked. Try again in a moment.", 2)
        loop = asyncio.get_running_loop()
        # Of the pool's own, so that work whose client has left counts until its thread has ended it.
        future = self._pool.submit(self._told, question)
        self._num_open += 1
        future.add_done_callback(partial(self._close_one, loop))
        return await asyncio.wrap_future(future)

    async def tell_or_refuse(self, question: Question) -> bytes | Exception:
        """Like ``tell``, but return the error: one that is raised fills Serve's log with tracebacks."""
        try:
            return await self.tell(question)
        except (VocabularyError, OverloadedError) as error:
            return error.with_traceback(None)

    def _close_one(self, loop: asyncio.AbstractEventLoop, _: Future[bytes]) -> None:
        def count() -> None:
            self._num_open -= 1

        # Closed where the process ends before its last work.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(count)

    def _told(self, question: Question) -> bytes:
        if isinstance(question, AskCheck):
            return self._check(question)
        return _json(self._words(question) if isinstance(question, AskWords) else self._vocabularies())

    def _vocabularies(self) -> dict[str, Any]:
        files, cleaned = list_files(self._folder), cleaned_languages()
        data = [
            {
                "id": name,
                "object": "vocabulary",
                "kind": "file" if name in files else "language",
                "source": "file" if name in files else "cleaned" if name in cleaned else "wordfreq",
                "languages": [language_of(name)],
            }
            for name in known_languages(self._folder)
        ]
        data += [
            {"id": name, "object": "vocabulary", "kind": "level", "source": source, "languages": list(languages)}
            for name, source, languages in levels_here(self._folder)
        ]
        return {"object": "list", "data": data}

    def _words(self, asked: AskWords) -> dict[str, Any]:
        word_list = self._listed(VocabularySpec(lang=asked.name)).word_list
        found = words_with(word_list, asked.query)
        lemmas = KnownLemmas.of_language(word_list.language)
        end = asked.offset + asked.limit
        return {
            "object": "list",
            "id": asked.name,
            "total": len(found),
            "has_more": end < len(found),
            "data": [
                {"rank": rank, "word": word, "lemma": lemmas.of(word)} for rank, word in found[asked.offset : end]
            ],
        }

    def _check(self, asked: AskCheck) -> bytes:
        spec = asked.spec.resolved(self._folder)
        word_list, forms = self._listed(spec)
        spec.changes.check(word_list.language)
        n_words = spec.n_words or word_list.num_ranks
        checker = TextChecker(word_list, spec.options, n_words, spec.changes, asked.new_words, forms=forms)
        report = checker.check(asked.text, with_lemmas=asked.with_words)
        return written([NamedReport(None, report)], asked.form).encode()

    def _listed(self, spec: VocabularySpec) -> _Listed:
        """Return a list, read if it is not known."""
        if spec.words is not None or spec.lang is None:
            own = inline_word_list(spec.words or (), spec.lang)
            return _Listed(own, ListForms(own, spec.options))
        stamp = stamp_of(spec.lang, spec.source, self._folder)
        key = spec.lang, spec.source, spec.safe, spec.unit, spec.case, stamp
        with self._lock:
            if kept := self._kept.get(key):
                return kept
        word_list = load_word_list(spec.lang, self._folder, source=spec.source, safe=spec.safe)
        if spec.unit == "lemma":
            word_list = group_by_lemma(word_list)
        # Numbers and marks make no difference to the words.
        made = _Listed(word_list, ListForms(word_list, ListOptions(case=spec.case)))
        if len(word_list.words) <= MAX_KEPT_WORDS:
            with self._lock:
                self._kept[key] = made
        return made


def stamp_of(lang: str, source: AskedSource, wordlist_dir: Path | None) -> Stamp:
    """Return a value that changes with the list's file; None for a built-in list. Never joins the name to a path.

    Raises:
        WordListError: There is no list of that name.
    """
    folder = wordlist_dir if source == "auto" else None
    check_known(lang, folder)
    if folder is not None and folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == f"{lang}.txt":
                    status = entry.stat()
                    return status.st_mtime_ns, status.st_size, status.st_ino
    return None


def _json(told: dict[str, Any]) -> bytes:
    return (json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
