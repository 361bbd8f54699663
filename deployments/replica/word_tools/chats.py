"""The chats that a word tool asks for while it answers one request, and the names that its list is to have."""

import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from deployments.contract import Answer, Decoding, ResolvedVocabulary, TextRequest, VocabularySpec
from deployments.errors import ApiError, EngineError
from deployments.replica.engine.node_lists import NodeList
from deployments.replica.word_tools.task import ToolTask
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_WORD_CHARS
from deployments.settings.service import Settings
from vocab.text.changes import fold
from vocab.text.names import names_in

Chat = Callable[[TextRequest], AsyncGenerator[Answer, None]]

NO_CHAT_TEMPLATE: Final = "no_chat_template"


class Chats:
    """Asks ``chat`` for answers in a list, as requests of their own."""

    def __init__(self, settings: Settings, chat: Chat) -> None:
        self._settings = settings
        self._chat = chat
        self._numbers = itertools.count()

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        vocabulary: ResolvedVocabulary,
        task: ToolTask,
        *,
        max_tokens: int,
        n: int,
        **fields: Any,
    ) -> list[str]:
        """Return ``n`` answers to a chat, or as many as are at once in the engine; ``fields`` are others of its body.

        Raises:
            EngineError: What the chat was refused with, as one of the field ``text``.
        """
        body = {
            "model": self._settings.model_id,
            "messages": list(messages),
            "max_tokens": max(min(max_tokens, self._settings.limits.max_new_tokens), vocabulary.fewest_tokens),
            "n": min(n, task.width),
            **fields,
        }
        caller = task.caller._replace(request_id=f"{task.caller.request_id}-t{next(self._numbers)}")
        request = TextRequest(body, vocabulary, Decoding(adapter=caller.adapter), caller)
        async with aclosing(self._chat(request)) as answer:
            item = await anext(answer, None)
        if isinstance(item, ApiError):
            # What it says of its own fields, the client has not sent.
            raise EngineError(item.status, item.message, param="text", code=item.code)
        if not isinstance(item, dict):
            raise EngineError(500, "The engine failed on this request; it can be sent again.", code="engine_error")
        task.num_read += item["usage"]["prompt_tokens"]
        task.num_drawn += item["usage"]["completion_tokens"]
        return [choice["message"]["content"] or "" for choice in item["choices"]]


def names_to_add(text: str, spec: VocabularySpec, listed: NodeList) -> list[str]:
    """Return the names of a text that its list does not have and that can be added to what was asked for."""
    words = listed.checker().check(text).words
    left_out = {fold(word, listed.language) for word in spec.exclude_words}
    return [
        name
        for name in names_in(text, words, frozenset(listed.listed.word_list.words))
        if fold(name, listed.language) not in left_out and len(name) <= MAX_WORD_CHARS
    ][: max(MAX_CHANGED_WORDS - len(spec.extra_words), 0)]
