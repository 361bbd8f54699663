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

from deployments.errors import EngineError
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.word_tools.chats import NO_CHAT_TEMPLATE, Chats
from deployments.replica.word_tools.next_words import NextWordFinder
from deployments.replica.word_tools.swap import Swap, Swapper
from deployments.replica.word_tools.task import ToolTask
from deployments.settings.limits import MAX_REWRITE_TOKENS
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
class _Rewriting:
    """One request, with the checker of its list, and the rewritten text as it grows."""

    task: ToolTask
    checker: TextChecker
    text: str = ""

    @property
    def blank(self) -> str:
        """Return what stands between two sentences."""
        unspaced = unspaced_language(self.task.listed.lang)
        return BLANK if unspaced is None or marks_of_unspaced("standard", unspaced).has_blanks else ""


@dataclass(frozen=True)
class Rewriter:
    """Rewrites texts in words of a list."""

    finder: NextWordFinder
    swapper: Swapper
    rows: RowAnswerer
    chats: Chats

    async def rewrite(self, task: ToolTask) -> AsyncGenerator[dict[str, Any], None]:
        """Rewrite a text sentence by sentence: yield each part when written as ``{"text": …}``, then the answer.

        Raises:
            EngineError: A sentence is too long, or all take too many tokens, or none of the list can be found for one;
                or the engine failed.
        """
        text, listed = task.body["text"], task.listed
        checker, segments = await asyncio.to_thread(lambda: (listed.checker(), listed.segments))
        written, done = _Rewriting(task, checker), 0
        changes: list[Change] = []
        for start, end in sentence_spans(text):
            sentence = await self._sentence(text[start:end], written)
            changes += [change.shift(start) for change in changes_between(text[start:end], sentence, segments)]
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
            "names": task.names,
            "coverage": {"before": reports[0].coverage, "after": reports[1].coverage},
            **task.report(),
        }

    async def _sentence(self, sentence: str, written: _Rewriting) -> str:
        """Rewrite one sentence in words of the list, by swaps or by the model; a listed one stays."""
        is_forced = written.task.body["force"]
        if not await _unlisted_words(sentence, written) and not is_forced:
            return sentence
        if len(sentence) > _MAX_SENTENCE:
            raise EngineError(
                400,
                f"'text' has a sentence of more than {_MAX_SENTENCE} characters: cut it in two, or end it with a mark.",
                param="text",
            )
        drafts = [await self._swap_words(sentence, written), *await self._ask_for_rewrites(sentence, written)]
        candidates = [one for one in dict.fromkeys(drafts) if one and not await _unlisted_words(one, written)]
        if is_forced and len(candidates) > 1:
            candidates = [one for one in candidates if one != sentence]
        if not candidates:
            raise EngineError(
                400,
                "No sentence of this list could be found for one of 'text': ask for more words.",
                param="vocab",
            )
        return candidates[0] if len(candidates) == 1 else await self._likeliest(sentence, candidates, written)

    async def _swap_words(self, sentence: str, written: _Rewriting) -> str:
        """Replace each unlisted word of a sentence by the listed one that fits best, and drop symbols.

        Return an empty text where a word has none.
        """
        done = 0
        while rest := [word for word in await _unlisted_words(sentence, written) if word.start >= done]:
            first = rest[0]
            if first.is_symbol:
                # No word takes the place of an emoji.
                sentence = sentence[: first.start].rstrip(" ") + sentence[first.end :]
                continue
            # As the text will be: what was written, and the sentence.
            text = f"{written.text[-_MAX_DRAFT:].strip()}{written.blank}{sentence}".strip()
            offset = len(text) - len(sentence)
            swap = Swap.of(text, offset + first.start, offset + first.end)
            word = await self.swapper.best(swap, written.task)
            _check_work(written.task)
            if not word:
                return ""
            sentence = sentence[: first.start] + word + sentence[first.end :]
            done = first.start + len(word)
        return sentence

    async def _ask_for_rewrites(self, sentence: str, written: _Rewriting) -> list[str]:
        """Ask the model, held to the list, to write a sentence in simpler words.

        Return what it writes; none where it has no chat template.
        """
        task = written.task
        if not task.body["candidates"]:
            return []
        [tokens] = await self.finder.tokens([sentence], task.caller)
        fields = {name: task.body[name] for name in ("temperature", "top_p", "seed") if name in task.body}
        draft = _DRAFT.format(written.text[-_MAX_DRAFT:].strip()) if written.text.strip() else ""
        try:
            texts = await self.chats.ask(
                [{"role": "user", "content": _PROMPT.format(draft=draft, sentence=sentence)}],
                task.request.vocabulary,
                task,
                max_tokens=len(tokens) * 3 // 2 + _TOKENS_BEYOND,
                n=task.body["candidates"],
                **fields,
            )
        except EngineError as error:
            if error.code == NO_CHAT_TEMPLATE:
                return []
            raise
        _check_work(task)
        return [written.blank.join(text.split()) for text in texts]

    async def _likeliest(self, sentence: str, candidates: list[str], written: _Rewriting) -> str:
        task = written.task
        [source] = await self.rows.read([sentence], {"add_special_tokens": False}, task.caller)
        prompts = await self.finder.tokens([_TOLD.format(candidate=one) for one in candidates], task.caller)
        task.num_read += sum(len(prompt) + len(source) for prompt in prompts)
        _check_work(task)
        found = await self.rows.scores([(prompt, source) for prompt in prompts], "b", task.caller, task.width)
        scores = list(map(sum, found))
        return candidates[scores.index(max(scores))]


def _check_work(task: ToolTask) -> None:
    """Refuse a text that takes more tokens than one request may (400)."""
    if task.num_read + task.num_drawn > MAX_REWRITE_TOKENS:
        raise EngineError(
            400,
            f"Rewriting 'text' takes more than {MAX_REWRITE_TOKENS} tokens: send it in parts, or ask for more words.",
            param="text",
        )


async def _unlisted_words(text: str, written: _Rewriting) -> list[CheckedWord]:
    # The first time, it looks for what is near words of the list.
    return (await asyncio.to_thread(written.checker.check, text)).not_allowed


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
