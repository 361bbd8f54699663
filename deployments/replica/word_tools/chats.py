"""The chats and the lists with more words that a word tool asks for while it answers one request."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Set
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from deployments.contract import (
    Answer,
    Caller,
    Decoding,
    ResolvedVocabulary,
    TextRequest,
    VocabularySpec,
    WordToolRequest,
)
from deployments.errors import ApiError, EngineError
from deployments.replica.engine.node_lists import NodeLists
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_WORD_CHARS, Limits
from vocab.marks import APOSTROPHES, POSSESSIVE_LETTER
from vocab.text.changes import fold
from vocab.text.report import TextReport
from vocab.text.sentences import sentence_spans

Chat = Callable[[TextRequest], AsyncGenerator[Answer, None]]
Resolve = Callable[[VocabularySpec, str], Awaitable[ResolvedVocabulary]]

NO_CHAT_TEMPLATE: Final = "no_chat_template"


class Chats:
    """Asks ``chat`` for answers in a list, as requests of their own."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._numbers = itertools.count()

    async def ask(self, body: dict[str, Any], vocabulary: ResolvedVocabulary, caller: Caller) -> dict[str, Any]:
        """Return the answer to a chat's body.

        Raises:
            EngineError: What the chat was refused with, as one of the field ``text``.
        """
        caller = caller._replace(request_id=f"{caller.request_id}-t{next(self._numbers)}")
        request = TextRequest(body, vocabulary, Decoding(adapter=caller.adapter), caller)
        async with aclosing(self._chat(request)) as answer:
            item = await anext(answer, None)
        if isinstance(item, ApiError):
            # What it says of its own fields, the client has not sent.
            raise EngineError(item.status, item.message, param="text", code=item.code)
        if not isinstance(item, dict):
            raise EngineError(500, "The engine failed on this request; it can be sent again.", code="engine_error")
        return item


class Names:
    """Finds the names of a text, and lists that have them; ``resolve`` finds lists with more words."""

    def __init__(self, lists: NodeLists, limits: Limits, resolve: Resolve) -> None:
        self._lists = lists
        self._limits = limits
        self._resolve = resolve

    async def add(self, request: WordToolRequest) -> tuple[list[str], WordToolRequest]:
        """Return the names of a request's text that are not listed, and the request with them in its vocabulary.

        There are none where it keeps no names.
        """
        if not request.body["keep_names"]:
            return [], request
        text, spec = request.body["text"], request.spec
        listed = await self._lists.get(request.vocabulary)
        report = await asyncio.to_thread(lambda: listed.checker().check(text))
        left_out = {fold(word, listed.language) for word in spec.exclude_words}
        names = [
            name
            for name in names_in(text, report, frozenset(listed.listed.word_list.words))
            if fold(name, listed.language) not in left_out and len(name) <= MAX_WORD_CHARS
        ][: max(MAX_CHANGED_WORDS - len(spec.extra_words), 0)]
        if not names:
            return [], request
        spec = spec.model_copy(update={"extra_words": (*spec.extra_words, *names)})
        return names, replace(request, spec=spec, vocabulary=await self._resolve(spec, request.caller.owner))


_POSSESSIVES: Final = tuple(mark + POSSESSIVE_LETTER for mark in APOSTROPHES)


def names_in(text: str, report: TextReport, known: Set[str]) -> list[str]:
    """Return the names of a checked text, sorted, without the English 's.

    A word at the beginning of a sentence is one where the text has it inside a sentence too, or where the ``known``
    words, a list's that has capitals, have it with a capital only.
    """
    starts = [start for start, _ in sentence_spans(text)]
    inside: set[str] = set()
    first: set[str] = set()
    for word in report.not_allowed:
        written = text[word.start : word.end]
        # A circled letter is upper case too.
        if not (written[:1].isupper() and written[:1].isalpha()) or word.reason == "excluded":
            continue
        start = max((start for start in starts if start <= word.start), default=0)
        name = written[:-2] if written.endswith(_POSSESSIVES) else written
        (inside if any(map(str.isalnum, text[start : word.start])) else first).add(name)
    return sorted(inside | {name for name in first if name in known and name.lower() not in known})
