"""What the lists hold, and which words of a text are in one: work for threads of the process that has the lists."""

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Condition, Lock
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from cachetools import LRUCache, cached

from deployments.contract import VocabularySpec
from deployments.errors import OverloadedError
from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError
from deployments.protocol.word_tools import AskCheck
from deployments.settings.keys import NO_OWNER
from deployments.settings.limits import MAX_CHANGED_WORDS, Limits
from vocab.errors import VocabularyError
from vocab.lists.known_lemmas import KnownLemmas
from vocab.lists.lemmas import rank_by_lemma
from vocab.lists.levels import levels_here
from vocab.lists.wordlists import (
    Unit,
    WordList,
    inline_word_list,
    known_languages,
    language_of,
    list_files,
    load_word_list,
    words_with,
)
from vocab.matching.structure.answers import listed_strings
from vocab.options import Case, ListOptions
from vocab.readings import check_readings, has_readings, readings_of
from vocab.text.changes import PromptWord
from vocab.text.checker import ListForms, TextChecker
from vocab.text.endings import tables
from vocab.text.formats import MAX_PLACES, NamedReport, render_reports
from vocab.text.names import NO_NAMES
from vocab.text.prompt_words import REACH, PromptReader, language_list

THREADS: Final = 2
"""Keys take turns in them; one key has one of them at most, so that the next does not wait for its long question."""

MAX_WAITING: Final = 64
"""Questions that wait; one more, and the last of the key with the most is refused. Costs 2 MB each."""

MAX_WAIT_S: Final = 30.0
"""One that has waited so long is refused, and at once if it would wait for half of it."""

MAX_CACHED_BYTES: Final = 256 * 2**20
"""Of the words and forms of the lists that are cached together; Korean alone, of 1.1 million forms, has 191 MB."""

_FORM_BYTES: Final = 80
"""Of what a list's checker knows of a word, beside the word."""

_LEMMA_BYTES: Final = 100
"""Of what the reader of prompts knows of a word, beside the word."""

Stamp: TypeAlias = tuple[int, int, int] | None
"""Changes with a list's file; None for a list without one."""


class AskVocabularies(NamedTuple):
    """Which lists there are."""


class AskWords(NamedTuple):
    """Words of a list: ``limit`` of those that have ``query`` in them, after the first ``offset``."""

    name: str
    offset: int
    limit: int
    query: str


Question: TypeAlias = AskVocabularies | AskWords | AskCheck

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class _CachedList:
    """A list, and its forms where a check has asked for them."""

    def __init__(self, word_list: WordList, options: ListOptions) -> None:
        self.word_list = word_list
        self._options = options
        self._lock = Lock()
        self._forms: ListForms | None = None
        self._prompts: PromptReader | None = None

    def forms(self) -> ListForms:
        """Return the forms of the list's words; made once."""
        with self._lock:
            self._forms = self._forms or ListForms(self.word_list, self._options)
            return self._forms

    def prompts(self) -> PromptReader:
        """Return the reader of prompts by the list; made once."""
        forms = self.forms()
        with self._lock:
            self._prompts = self._prompts or PromptReader(self.word_list, forms)
            return self._prompts


def _num_bytes(cached_list: _CachedList) -> int:
    """Estimate the bytes of the words with their forms and lemmas, also where these are not made yet."""
    words = cached_list.word_list.words
    return sum(map(sys.getsizeof, words)) + len(words) * _FORM_BYTES + min(len(words), REACH) * _LEMMA_BYTES


def _read_list(folder: Path | None, lang: str, safe: bool, unit: Unit, case: Case, _: Stamp) -> _CachedList:
    """Read a list; its stamp tells the cache one version of a file from the next."""
    word_list = load_word_list(lang, folder, safe=safe)
    if unit == "lemma":
        word_list = rank_by_lemma(word_list)
    # What reading leaves has cycles, and long lists of few objects would lie there for hours: 100 MB each.
    gc.collect()
    # Numbers and marks make no difference to the words.
    return _CachedList(word_list, ListOptions(case=case))


class ListQueries:
    """Answer questions about the lists of a folder and the built-in ones."""

    def __init__(self, wordlist_dir: Path | None, limits: Limits) -> None:
        self._folder = wordlist_dir
        self._limits = limits
        self._pool = ThreadPoolExecutor(THREADS, "lists")
        self._semaphore = FairSemaphore(THREADS, MAX_WAITING, MAX_WAIT_S, share_of_key=1 / THREADS)
        # Each is read once for all who ask meanwhile.
        lists: LRUCache[Any, _CachedList] = LRUCache(MAX_CACHED_BYTES, getsizeof=_num_bytes)
        self._read_list = cached(lists, condition=Condition())(_read_list)

    async def answer(self, question: Question, owner: str = NO_OWNER) -> bytes:
        """Answer a question, in a turn of the key ``owner``; return the bytes that are sent.

        Raises:
            WordListError: There is no such list, or it cannot be used.
            OptionsError: A word is both added and left out.
            OverloadedError: Too many wait, or this one has waited too long, or would.
        """
        return await self._in_turn(self._answer, question, owner)

    async def prompt_words(self, spec: VocabularySpec, owner: str = NO_OWNER) -> tuple[PromptWord, ...]:
        """Return the words of a vocabulary's prompt that it is to allow besides; its level has been resolved.

        Raises:
            WordListError, OverloadedError: As ``answer``.
        """
        return await self._in_turn(self._prompt_words, spec, owner)

    async def _in_turn(self, work: Callable[[Asked], Answer], asked: Asked, owner: str) -> Answer:
        try:
            async with self._semaphore.take(1, owner):
                future = asyncio.wrap_future(self._pool.submit(work, asked))
                try:
                    return await asyncio.shield(future)
                finally:
                    # Work whose client has left counts until its thread has ended it.
                    await asyncio.wait({future})
        except SemaphoreFullError as full:
            raise OverloadedError(
                "Too many texts are being checked. Try again in a moment.", full.retry_after_s
            ) from None

    async def answer_or_refuse(self, question: Question, owner: str) -> bytes | Exception:
        """Like ``answer``, but return the error: one that is raised fills Serve's log with tracebacks."""
        try:
            return await self.answer(question, owner)
        except (VocabularyError, OverloadedError) as error:
            return error.with_traceback(None)

    def _answer(self, question: Question) -> bytes:
        if isinstance(question, AskCheck):
            return self._check(question)
        return _json(self._words(question) if isinstance(question, AskWords) else self._vocabularies())

    def _vocabularies(self) -> dict[str, Any]:
        files = list_files(self._folder)
        data = [
            _list_object(name, "file", "file", [language_of(name)])
            if name in files
            else _list_object(name, "language", "cleaned", [language_of(name)])
            for name in known_languages(self._folder)
        ]
        data += [
            _list_object(name, "level", source, languages) for name, source, languages in levels_here(self._folder)
        ]
        return {"object": "list", "data": data}

    def _words(self, asked: AskWords) -> dict[str, Any]:
        """Return a page of a list's words that contain the query, each with rank and lemma."""
        word_list = self._load(VocabularySpec(lang=asked.name).resolve(self._folder)).word_list
        found = words_with(word_list, asked.query)
        lemmas = KnownLemmas.of_language(word_list.language)
        end = asked.offset + asked.limit
        return {
            "object": "list",
            "id": word_list.lang,
            "total": len(found),
            "has_more": end < len(found),
            "data": [
                {"rank": rank, "word": word, "lemma": lemmas.of(word)} for rank, word in found[asked.offset : end]
            ],
        }

    def _check(self, asked: AskCheck) -> bytes:
        """Check a text against a list; return the report in the form asked for."""
        spec = asked.spec.resolve(self._folder)
        found = self._load(spec)
        word_list = found.word_list
        spec.changes.check(word_list.language)
        prompt_words = None if spec.prompt is None else self._prompt_words(spec, found)
        spec = spec.with_words_of_prompt(prompt_words or ())
        if asked.with_readings:
            check_readings(word_list.language)
        checker = _checker(found, spec, asked.new_words, inflected=asked.inflected)
        text, pointers = asked.text, tuple[str, ...]()
        if asked.schema is not None:
            text, pointers = listed_strings(asked.schema, text)
        report = checker.check(text, folds=True, keep_names=asked.keep_names, with_lemmas=asked.with_words)
        report = replace(report, prompt_words=prompt_words)
        if asked.with_readings:
            words = report.words[:MAX_PLACES] if asked.form == "json" else report.words
            report = replace(report, readings=readings_of(text, [word[:2] for word in words], word_list.language))
        named = NamedReport(None, report, pointers)
        return render_reports([named], asked.form, with_sentences=asked.with_sentences).encode()

    def _prompt_words(self, spec: VocabularySpec, found: _CachedList | None = None) -> tuple[PromptWord, ...]:
        found = found or self._load(spec)
        lang = language_list(found.word_list)
        known = found if lang is None else self._load(VocabularySpec(lang=lang, safe=spec.safe))
        allowed, room = _checker(found, spec), MAX_CHANGED_WORDS - len(spec.extra_words)
        return known.prompts().read(spec.prompt or "", allowed, spec.exclude_words, room=room)

    def _load(self, spec: VocabularySpec) -> _CachedList:
        """Return a list, from the cache or read; a client's own list is not cached."""
        if spec.words is not None or spec.lang is None:
            own = inline_word_list(spec.words or (), spec.lang)
            return _CachedList(rank_by_lemma(own) if spec.unit == "lemma" else own, spec.options)
        stamp = stamp_of(spec.lang, self._folder)
        return self._read_list(self._folder, spec.lang, spec.safe, spec.unit, spec.case, stamp)


def stamp_of(lang: str, wordlist_dir: Path | None) -> Stamp:
    """Return a value that changes with the file of the list of exactly this name; None for a built-in list.

    Raises:
        WordListFolderError: The folder is not there.
    """
    path = list_files(wordlist_dir).get(lang)
    if path is None:
        return None
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _checker(
    found: _CachedList, spec: VocabularySpec, new_words: Sequence[str] = (), *, inflected: bool = False
) -> TextChecker:
    n_words, forms = spec.n_words or found.word_list.num_ranks, found.forms()
    return TextChecker(
        found.word_list, spec.options, n_words, spec.changes, new_words, forms=forms, inflected=inflected
    )


def _list_object(name: str, kind: str, source: str, languages: Sequence[str]) -> dict[str, Any]:
    return {
        "id": name,
        "object": "vocabulary",
        "kind": kind,
        "source": source,
        "languages": list(languages),
        "readings": any(map(has_readings, languages)),
        "names": not NO_NAMES.keys() >= set(languages),
        "inflected": not tables().keys().isdisjoint(languages),
    }


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
