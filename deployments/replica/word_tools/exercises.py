"""Exercises from a text in the words of a list: each with a key that follows from the text.

Gaps, order and dictation are the text's own sentences, and so are true statements; a false one has another word in one
place. Questions and glosses are written by the model, held to the list, and one is taken only where the model itself,
given it, finds the right option likelier than each wrong one. Wrong options are listed words about as frequent as the
right one that fit its sentence, but less well.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.errors import EngineError
from deployments.replica.answers.gate import UnlistedTextError
from deployments.replica.word_tools.chats import Chats
from deployments.replica.word_tools.sentences import ContentWord, ListedText, Sentence
from deployments.replica.word_tools.swap import Swap, Swapper
from deployments.replica.word_tools.task import ToolTask
from vocab.answers import ExerciseKind as Kind

Item = dict[str, Any]

LANGUAGES: Final[Mapping[str, Mapping[str, Any]]] = json.loads(
    Path(__file__).with_name("languages.json").read_text(encoding="utf-8")
)
"""By a list's language: instructions by kind, each used where the list has all its words, and examples that show the
model its form, for small models would repeat an instruction: (sentence, its word that is the answer, question) and
(word, gloss). Where a language has none, the English ones are used: the list leaves the model no other language."""

NUM_WRONG: Final = 3
"""Options of a question or gap besides the right one."""

_MIN_LEAD: Final = 1.0
"""Nats by which the right option fits better than a wrong one, at least: what fits as well may be right too."""

_MAX_LEAD: Final = 6.0
"""Nats by which a sentence's own word fits better than one that makes it false, at most: else it makes no sense."""

_SHARE_TRUE: Final = 0.5

_DRAFTS: Final = 6
"""Questions or glosses of which one is taken."""

_TRIES: Final = 3
"""Sentences or words that are tried for each item that is asked for."""

_QUESTION: Final = (
    "You write questions for learners. The user gives a sentence and a word of it. You write a question about the "
    "sentence to which the word is the answer."
)
_GLOSS: Final = "You explain words to learners. The user gives a word. You say what it means, without the word itself."
_ABOUT: Final = "{sentence}\n{answer}"

_QUESTION_FORM: Final = {"type": "string", "x-vocab": {"max_sentences": 1, "max_words": 14}}
_MAX_GLOSS_WORDS: Final = 12
_GLOSS_FORM: Final = {
    "type": "string",
    "x-vocab": {"end": "word", "punctuation": "none", "max_words": _MAX_GLOSS_WORDS},
}
_MEMBER: Final = "text"
_ANSWER_TOKENS: Final = 64

_TOO_SHORT: Final = "the text has too few sentences whose words are all in the list"
_NOT_FOUND: Final = "the model wrote too few that could be answered from the text"
_CANNOT_WRITE: Final = "the model cannot write them in this list: it has no chat template, or thinks before it answers"


@dataclass
class _Task:
    """One request, and what has been found out for it."""

    tool: ToolTask
    text: ListedText
    examples: Mapping[str, Any]
    random: Random
    wrong: dict[int, dict[str, float]] = field(default_factory=dict)
    shown: dict[Kind, list[int]] = field(default_factory=dict)
    reasons: dict[Kind, str] = field(default_factory=dict)

    @property
    def num_items(self) -> int:
        return int(self.tool.body["num_items"])

    def sentences(self) -> list[Sentence]:
        """Return the sentences with a word to ask for, in an order of its own each time."""
        found = [sentence for sentence in self.text.sentences if sentence.content]
        return self.random.sample(found, len(found))

    def note_tried(self, kind: Kind, num_tried: int) -> None:
        """Note that there were sentences enough, where fewer items of a kind were found than asked for."""
        if num_tried >= self.num_items:
            self.reasons.setdefault(kind, _NOT_FOUND)

    def shuffle(self, right: str, wrong: Sequence[str]) -> tuple[list[str], int]:
        options = self.random.sample([right, *wrong], len(wrong) + 1)
        return options, options.index(right)


class ExerciseWriter:
    """Writes exercises with the engine of ``swapper``; ``resolve`` finds lists with fewer words."""

    def __init__(
        self,
        swapper: Swapper,
        chats: Chats,
        resolve: Callable[[VocabularySpec, str], Awaitable[ResolvedVocabulary]],
    ) -> None:
        self._swapper = swapper
        self._chats = chats
        self._resolve = resolve
        self._writers: Mapping[Kind, Callable[[_Task], Awaitable[list[Item]]]] = {
            "questions": self._questions,
            "true_false": self._true_false,
            "gap_fill": self._gap_fill,
            "matching": self._matching,
            "order": self._order,
            "dictation": self._dictation,
        }

    async def write(self, tool: ToolTask) -> AsyncGenerator[dict[str, Any], None]:
        """Write the exercises of a text: yield each when written, as ``{"exercise": …}``, then the answer's members.

        Raises:
            EngineError: No sentence of the text can be used, or the engine failed.
            UnlistedTextError: A string of an exercise is not in the list.
        """
        body, listed = tool.body, tool.listed
        text = await asyncio.to_thread(ListedText.of, body["text"], listed)
        if not text.sentences:
            raise EngineError(
                400,
                "'text' has no sentence of three words or more whose words are all in the list: rewrite it in the list "
                "first, or ask for more words.",
                param="text",
            )
        language = LANGUAGES.get(listed.language, {})
        examples = language if "questions" in language else LANGUAGES["en"]
        task = _Task(tool, text, examples, Random(body.get("seed", 0)))  # noqa: S311
        exercises, left_out = [], []
        instructions = language.get("instructions", {})
        for kind in body["kinds"]:
            items = await self._writers[kind](task)
            if len(items) < task.num_items:
                reason = task.reasons.get(kind, _TOO_SHORT)
                left_out.append({"kind": kind, "num_items": len(items), "reason": reason})
            if items:
                line = instructions.get(kind)
                exercise = {"kind": kind, "instruction": line if line and text.allows(line) else None, "items": items}
                if kind in task.shown:
                    exercise["shown"] = task.shown[kind]
                await asyncio.to_thread(_check, items, text)
                exercises.append(exercise)
                yield {"exercise": exercise}
        yield {
            "lang": listed.lang,
            "exercises": exercises,
            "names": tool.names,
            "num_sentences": text.num_sentences,
            "num_unlisted_sentences": text.num_unlisted,
            "left_out": left_out,
            **tool.report(),
        }

    async def _gap_fill(self, task: _Task) -> list[Item]:
        """Leave out the rarest word of a sentence."""
        items: list[Item] = []
        for sentence in task.sentences():
            if len(items) == task.num_items:
                break
            word = sentence.content[0]
            before, after = sentence.around(word)
            options, answer = task.shuffle(word.text, list(await self._wrong(task, sentence, word))[:NUM_WRONG])
            if len(options) > 1:
                source = {"start": word.start, "end": word.end}
                items.append({"before": before, "after": after, "options": options, "answer": answer, "source": source})
        return _in_order(items)

    async def _true_false(self, task: _Task) -> list[Item]:
        """Take sentences as they are, and every other one with another word in the place of one."""
        items: list[Item] = []
        for sentence in task.sentences()[: task.num_items]:
            changed = None if task.random.random() < _SHARE_TRUE else await self._change(task, sentence)
            statement = changed or sentence.text
            items.append({"statement": statement, "answer": changed is None, "source": sentence.source})
        return _in_order(items)

    async def _change(self, task: _Task, sentence: Sentence) -> str | None:
        """Return a sentence with another word in the place of one, which the text does not have; None if none fits."""
        found: list[tuple[float, str]] = []
        for word in sentence.content[:2]:
            before, after = sentence.around(word)
            wrong = await self._wrong(task, sentence, word)
            found += [(lead, before + other + after) for other, lead in wrong.items() if lead < _MAX_LEAD]
        return next((text for _, text in sorted(found) if text not in task.tool.body["text"]), None)

    async def _order(self, task: _Task) -> list[Item]:
        """Take some sentences in their order, with another one to print them in."""
        sentences = task.text.sentences
        number = min(task.num_items, len(sentences))
        if number < 2:
            return []
        chosen = sorted(task.random.sample(range(len(sentences)), number))
        task.shown["order"] = _derange(number, task.random)
        return [{"sentence": sentences[place].text, "source": sentences[place].source} for place in chosen]

    async def _dictation(self, task: _Task) -> list[Item]:
        """Take the shorter sentences, in their order."""
        shortest = sorted(task.text.sentences, key=lambda sentence: len(sentence.words))[: task.num_items]
        items = [{"sentence": one.text, "num_words": len(one.words), "source": one.source} for one in shortest]
        return _in_order(items)

    async def _questions(self, task: _Task) -> list[Item]:
        """Have the model ask for a word of a sentence, and take the question it answers itself with that word."""
        items: list[Item] = []
        shown = [
            message
            for sentence, answer, question in task.examples["questions"]
            for message in _exchange(_ABOUT.format(sentence=sentence, answer=answer), question)
        ]
        tried = [(one, word) for one in task.sentences() for word in one.content[:2]][: _TRIES * task.num_items]
        asked_for = set[int]()
        for sentence, word in tried:
            if len(items) == task.num_items or "questions" in task.reasons:
                break
            if sentence.start in asked_for:
                continue
            wrong = list(await self._wrong(task, sentence, word))[:NUM_WRONG]
            if not wrong:
                continue
            asked = _ABOUT.format(sentence=sentence.text, answer=word.text)
            vocabulary = task.tool.request.vocabulary
            drafts = await self._ask(task, "questions", [_system(_QUESTION), *shown, *_exchange(asked)], vocabulary)
            drafts = [one for one in drafts if task.text.is_question(one, sentence, word)]
            contexts = {one: (f"{sentence.text}\n{one} ", ".") for one in drafts}
            if question := await self._clearest(task, contexts, (f"{sentence.text}\n", "."), word.text, wrong):
                asked_for.add(sentence.start)
                options, answer = task.shuffle(word.text, wrong)
                source = {"start": word.start, "end": word.end}
                items.append({"question": question, "options": options, "answer": answer, "source": source})
        task.note_tried("questions", len(tried))
        return _in_order(items)

    async def _matching(self, task: _Task) -> list[Item]:
        """Have the model explain words without themselves, and take what distinguishes each from the others."""
        words = {sentence.content[0].text: sentence.content[0] for sentence in task.sentences()}
        tried = list(words)[: _TRIES * task.num_items]
        forms = [form for word in tried for form in task.text.same_lemma(word)]
        spec = task.tool.request.spec
        spec = spec.model_copy(update={"exclude_words": (*spec.exclude_words, *forms)})
        without = await self._resolve(spec, task.tool.caller.owner)
        shown = [message for word, gloss in task.examples["glosses"] for message in _exchange(word, gloss)]
        items: list[Item] = []
        for word in tried:
            if len(items) == task.num_items or "matching" in task.reasons:
                break
            drafts = await self._ask(task, "matching", [_system(_GLOSS), *shown, *_exchange(word)], without)
            # The model ended it, and not the list.
            ended = [one for one in drafts if len(task.text.words_in(one)) < _MAX_GLOSS_WORDS]
            contexts = {one: (f'"{one}" is what the word "', '" means.') for one in ended}
            others = [other for other in tried if other != word]
            if gloss := await self._clearest(task, contexts, ('This is what the word "', '" means.'), word, others):
                source = {"start": words[word].start, "end": words[word].end}
                items.append({"word": word, "gloss": gloss, "source": source})
        task.note_tried("matching", len(tried))
        if len(items) < 2:
            return []
        task.shown["matching"] = _derange(len(items), task.random)
        return _in_order(items)

    async def _wrong(self, task: _Task, sentence: Sentence, word: ContentWord) -> dict[str, float]:
        """Return words that fit a sentence less well than its own word, the best first, with its lead in nats."""
        if word.start not in task.wrong:
            alike = await asyncio.to_thread(task.text.alike, word, sentence)
            place = word.start - sentence.start
            swap = Swap.of(sentence.text, place, place + len(word.text))
            own, *scores = await self._swapper.scores(swap, [word.text, *alike], task.tool)
            ranked = sorted(zip(scores, alike, strict=True), reverse=True)
            task.wrong[word.start] = {other: own - score for score, other in ranked if own - score > _MIN_LEAD}
        return task.wrong[word.start]

    async def _clearest(
        self,
        task: _Task,
        contexts: Mapping[str, tuple[str, str]],
        prior: tuple[str, str],
        right: str,
        wrong: Sequence[str],
    ) -> str | None:
        """Return the draft that makes the right word likelier by more than each other one; None where none does.

        ``contexts`` has for each draft what stands before and after the word, ``prior`` the same without a draft.
        """
        words = [right, *wrong]
        without = await self._swapper.scores(_between(right, *prior), words, task.tool) if contexts else []
        leads = {}
        for draft, around in contexts.items():
            scores = await self._swapper.scores(_between(right, *around), words, task.tool)
            own, *others = (score - base for score, base in zip(scores, without, strict=True))
            leads[draft] = own - max(others, default=own)
        best = max(leads, key=leads.__getitem__, default=None)
        return best if best is not None and leads[best] > 0 else None

    async def _ask(
        self, task: _Task, kind: Kind, messages: Sequence[Mapping[str, str]], vocabulary: ResolvedVocabulary
    ) -> list[str]:
        """Ask the model for one string in the list; return what it wrote, each once; none where it cannot."""
        form = _QUESTION_FORM if kind == "questions" else _GLOSS_FORM
        schema = {"type": "object", "properties": {_MEMBER: form}, "required": [_MEMBER]}
        fields = {name: task.tool.body[name] for name in ("seed",) if name in task.tool.body}
        try:
            written = await self._chats.ask(
                messages,
                vocabulary,
                task.tool,
                max_tokens=_ANSWER_TOKENS,
                n=_DRAFTS,
                temperature=0.7,
                response_format={"type": "json_schema", "json_schema": {"name": kind, "schema": schema}},
                **fields,
            )
        except EngineError as error:
            # The client did not ask for this chat: what a text alone gives, it gets.
            if error.status != 400:
                raise
            task.reasons[kind] = _CANNOT_WRITE
            return []
        return list({json.loads(one)[_MEMBER]: None for one in written})


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def _exchange(asked: str, answer: str | None = None) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": asked}]
    if answer is not None:
        messages.append({"role": "assistant", "content": json.dumps({_MEMBER: answer}, ensure_ascii=False)})
    return messages


def _between(word: str, before: str, after: str) -> Swap:
    return Swap(word, before, after, ("", ""), False)


def _in_order(items: list[Item]) -> list[Item]:
    return sorted(items, key=lambda item: item["source"]["start"])


def _derange(number: int, random: Random) -> list[int]:
    order = list(range(number))
    while order == sorted(order):
        random.shuffle(order)
    return order


def _check(items: Sequence[Item], text: ListedText) -> None:
    """Refuse a string of an exercise that is not listed, before it leaves."""
    for item in items:
        for part in [*item.get("options", ()), *(value for value in item.values() if isinstance(value, str))]:
            if not text.allows(part):
                raise UnlistedTextError(f"an exercise has {len(part)} characters that are not listed")
