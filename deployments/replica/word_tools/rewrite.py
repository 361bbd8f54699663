"""A text in the words of a list, sentence by sentence.

A sentence that is listed stays. Another has candidates: the sentence with each unlisted word swapped for one that means
the same and fits (``swap``), and what the model writes of it as a chat, held to the list, with what has been written so
far before its eyes. The candidate is taken from which the model would best tell what the sentence was.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from deployments.contract import Caller, ResolvedVocabulary, WordToolRequest, usage
from deployments.errors import EngineError
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine.loaded_adapters import name_of
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.word_tools.chats import NO_CHAT_TEMPLATE, Chats, Names
from deployments.replica.word_tools.next_words import NextWordFinder
from deployments.replica.word_tools.swap import Swap, Swapper
from deployments.settings.limits import MAX_REWRITE_TOKENS
from deployments.settings.service import Settings
from vocab.lists.wordlists import unspaced_language
from vocab.marks import BLANK, marks_of_unspaced
from vocab.text.checker import TextChecker
from vocab.text.report import CheckedWord
from vocab.text.sentences import sentence_spans
from vocab.text.units import word_pattern
from vocab.text.words import ListSegments

_MAX_DRAFT: Final = 600
"""Characters of what has been written that the next sentence is written after."""

_MAX_SENTENCE: Final = 1_500
"""Characters of a sentence; a longer one is truncated, and the answer says so."""

_PROMPT: Final = (
    "Write the sentence again in simple words. Keep its meaning and its names.\n{draft}\nSentence: {sentence}"
)
_DRAFT: Final = "\nIt comes after: {}\n"

_TOLD: Final = "{candidate} In other words, "
"""After it the source is scored."""

_TOKENS_BEYOND: Final = 16
"""A sentence in simpler words may be half as long again, and so many tokens more."""


@dataclass
class Written:
    """A rewritten text as it grows, and the tokens read and drawn for it."""

    text: str = ""
    num_read: int = 0
    num_drawn: int = 0


class _Plan(NamedTuple):
    """What holds for all sentences of a text: how the list is asked for, how its texts are checked, who asks."""

    body: dict[str, Any]
    vocabulary: ResolvedVocabulary
    checker: TextChecker
    segments: ListSegments | None
    caller: Caller
    width: int

    @property
    def blank(self) -> str:
        """Return what stands between two sentences."""
        unspaced = unspaced_language(self.vocabulary.lang)
        return BLANK if unspaced is None or marks_of_unspaced("standard", unspaced).has_blanks else ""


class Rewriter:
    """Rewrites texts in words of a list."""

    def __init__(
        self,
        settings: Settings,
        lists: NodeLists,
        finder: NextWordFinder,
        swapper: Swapper,
        rows: RowAnswerer,
        chats: Chats,
        names: Names,
    ) -> None:
        self._settings = settings
        self._lists = lists
        self._finder = finder
        self._swapper = swapper
        self._rows = rows
        self._chats = chats
        self._names = names

    async def rewrite(self, request: WordToolRequest, width: int) -> AsyncGenerator[dict[str, Any], None]:
        """Rewrite a text sentence by sentence: yield each part when written as ``{"text": …}``, then the answer.

        Raises:
            EngineError: A sentence is too long, or all take too many tokens, or none of the list can be found for one;
                or the engine failed.
        """
        names, request = await self._names.add(request)
        text, caller = request.body["text"], request.caller
        listed = await self._lists.get(request.vocabulary)
        checker, segments = await asyncio.to_thread(lambda: (listed.checker(), listed.segments))
        plan = _Plan(request.body, request.vocabulary, checker, segments, caller, width)
        written, done = Written(), 0
        changes: list[Change] = []
        for start, end in sentence_spans(text):
            sentence = await self._sentence(text[start:end], plan, written)
            changes += [change.shift(start) for change in changes_between(text[start:end], sentence, plan.segments)]
            part = text[done:start] + sentence
            written.text += part
            done = end
            yield {"text": part}
        if text[done:]:
            written.text += text[done:]
            yield {"text": text[done:]}
        reports = [await asyncio.to_thread(checker.check, one) for one in (text, written.text)]
        yield {
            "text": written.text,
            "changes": [
                {"start": change.start, "end": change.end, "from": change.before, "to": change.after}
                for change in changes
            ],
            "names": names,
            "coverage": {"before": reports[0].coverage, "after": reports[1].coverage},
            "vocab": {**listed.block, "adapter": name_of(caller.adapter)},
            "usage": usage(written.num_read, written.num_drawn),
        }

    async def _sentence(self, sentence: str, plan: _Plan, written: Written) -> str:
        """Rewrite one sentence in words of the list, by swaps or by the model; a listed one stays."""
        if not await _unlisted_words(sentence, plan) and not plan.body["force"]:
            return sentence
        if len(sentence) > _MAX_SENTENCE:
            raise EngineError(
                400,
                f"'text' has a sentence of more than {_MAX_SENTENCE} characters: cut it in two, or end it with a mark.",
                param="text",
            )
        drafts = [
            await self._swap_words(sentence, plan, written),
            *await self._ask_for_rewrites(sentence, plan, written),
        ]
        candidates = [one for one in dict.fromkeys(drafts) if one and not await _unlisted_words(one, plan)]
        if plan.body["force"] and len(candidates) > 1:
            candidates = [one for one in candidates if one != sentence]
        if not candidates:
            raise EngineError(
                400,
                "No sentence of this list could be found for one of 'text': ask for more words.",
                param="vocab",
            )
        return candidates[0] if len(candidates) == 1 else await self._likeliest(sentence, candidates, plan, written)

    async def _swap_words(self, sentence: str, plan: _Plan, written: Written) -> str:
        """Replace each unlisted word of a sentence by the listed one that fits best, and drop symbols.

        Return an empty text where a word has none.
        """
        done = 0
        while rest := [word for word in await _unlisted_words(sentence, plan) if word.start >= done]:
            first = rest[0]
            if first.is_symbol:
                # No word takes the place of an emoji.
                sentence = sentence[: first.start].rstrip(" ") + sentence[first.end :]
                continue
            # As the text will be: what was written, and the sentence.
            text = f"{written.text[-_MAX_DRAFT:].strip()}{plan.blank}{sentence}".strip()
            offset = len(text) - len(sentence)
            swap = Swap.of(text, offset + first.start, offset + first.end)
            word, num_read = await self._swapper.best(swap, plan.vocabulary, plan.caller, plan.width)
            self._count(written, num_read, 0)
            if not word:
                return ""
            sentence = sentence[: first.start] + word + sentence[first.end :]
            done = first.start + len(word)
        return sentence

    async def _ask_for_rewrites(self, sentence: str, plan: _Plan, written: Written) -> list[str]:
        """Ask the model, held to the list, to write a sentence in simpler words.

        Return what it writes; none where it has no chat template.
        """
        num_candidates: int = plan.body["candidates"]
        if not num_candidates:
            return []
        [tokens] = await self._finder.tokens([sentence], plan.caller)
        limits, num_tokens = self._settings.limits, len(tokens) * 3 // 2 + _TOKENS_BEYOND
        fields: dict[str, Any] = {
            name: plan.body[name] for name in ("temperature", "top_p", "seed") if name in plan.body
        }
        draft = _DRAFT.format(written.text[-_MAX_DRAFT:].strip()) if written.text.strip() else ""
        asked: dict[str, Any] = {
            "model": self._settings.model_id,
            "messages": [{"role": "user", "content": _PROMPT.format(draft=draft, sentence=sentence)}],
            "max_tokens": max(min(num_tokens, limits.max_new_tokens), plan.vocabulary.fewest_tokens),
            "n": min(num_candidates, plan.width),
            **fields,
        }
        try:
            item = await self._chats.ask(asked, plan.vocabulary, plan.caller)
        except EngineError as error:
            if error.code == NO_CHAT_TEMPLATE:
                return []
            raise
        self._count(written, item["usage"]["prompt_tokens"], item["usage"]["completion_tokens"])
        return [plan.blank.join((choice["message"]["content"] or "").split()) for choice in item["choices"]]

    async def _likeliest(self, sentence: str, candidates: list[str], plan: _Plan, written: Written) -> str:
        [source] = await self._rows.read([sentence], {"add_special_tokens": False}, plan.caller)
        prompts = await self._finder.tokens([_TOLD.format(candidate=one) for one in candidates], plan.caller)
        self._count(written, sum(len(prompt) + len(source) for prompt in prompts), 0)
        found = await self._rows.scores([(prompt, source) for prompt in prompts], "b", plan.caller, plan.width)
        scores = list(map(sum, found))
        return candidates[scores.index(max(scores))]

    def _count(self, written: Written, num_read: int, num_drawn: int) -> None:
        """Count the tokens that a text has taken; refuse it past ``max_rewrite_tokens`` (400)."""
        written.num_read += num_read
        written.num_drawn += num_drawn
        limit = MAX_REWRITE_TOKENS
        if written.num_read + written.num_drawn > limit:
            raise EngineError(
                400,
                f"Rewriting 'text' takes more than {limit} tokens: send it in parts, or ask for more words.",
                param="text",
            )


async def _unlisted_words(text: str, plan: _Plan) -> list[CheckedWord]:
    # The first time, it looks for what is near words of the list.
    return (await asyncio.to_thread(plan.checker.check, text)).not_allowed


class Change(NamedTuple):
    """Words of a text from ``start`` to ``end``, in code points, and what stands in their place. One is empty where
    words were only added or left out."""

    start: int
    end: int
    before: str
    after: str

    def shift(self, offset: int) -> "Change":
        """Return the change moved by ``offset`` code points."""
        return self._replace(start=self.start + offset, end=self.end + offset)


def changes_between(before: str, after: str, segments: ListSegments | None = None) -> list[Change]:
    """Compare two texts word by word, those without spaces by ``segments``; return their differences in order.

    Capitals count, marks do not.
    """
    if segments is not None:
        old, new = segments.spans(before), segments.spans(after)
    else:
        old, new = ([match.span() for match in word_pattern().finditer(text)] for text in (before, after))
    matcher = SequenceMatcher(
        None, [before[start:end] for start, end in old], [after[start:end] for start, end in new], autojunk=False
    )
    found = []
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            continue
        start = old[first][0] if first < len(old) else len(before)
        end = old[last - 1][1] if last > first else start
        written = after[new[new_first][0] : new[new_last - 1][1]] if new_last > new_first else ""
        found.append(Change(start, end, before[start:end], written))
    return found
