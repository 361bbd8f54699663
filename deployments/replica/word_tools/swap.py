"""Other words of a list for a word of a text, ranked by the model.

Candidates are the likeliest next words after the text before the word, those that the model thinks mean the same, and
forms of the word and words that are spelled like it. Each is scored by the log-probability of the candidate and the
rest of its sentence, so that what does not go with the words around it ("a" before "apple") is after what does.
"""

import asyncio
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cachetools import LRUCache

from deployments.errors import EngineError, printable
from deployments.replica.answers.rows import RowAnswerer
from deployments.replica.engine.node_lists import NodeList
from deployments.replica.word_tools.next_words import NextWordFinder
from deployments.replica.word_tools.task import ToolTask
from vocab.lists.known_lemmas import KnownLemmas
from vocab.marks import LINE_BREAK
from vocab.text.changes import ranks_left_out
from vocab.text.forms import Capitals
from vocab.text.nearest import NearestWords
from vocab.text.sentences import sentence_around

_NUM_NEXT: Final = 50
"""Candidates that are likely to follow what stands before the word."""

_NUM_NEIGHBOURS: Final = 20

_MAX_LISTS: Final = 8
"""Kept for their near words; one of 50,000 words takes 10 MB."""

_SAME_MEANING: Final = 'The word "{}" means the same as "'
"""What the model is asked for words of the same meaning; of four such questions the one with the best answers by
SmolLM2-135M: "began" for "commenced", "home" for "residence"."""

_SAME_MEANING_IN: Final[Mapping[str, str]] = {
    "zh": "“{}”的同义词是“",
    "zh-Hant": "「{}」的同義詞是「",
    "ja": "「{}」と同じ意味の言葉は「",
    "th": 'คำที่มีความหมายเหมือน "{}" คือ "',
}
"""The same in a language without spaces, in which the answer is a word."""

_NUM_MEANT: Final = 12

_LOG_P_OF_FORMS: Final = -0.5
_LOG_P_OF_NEAR: Final = -6.0
"""What forms of the lemma, and words that are only spelled alike, count as answers to that question."""

_MAX_BEFORE: Final = 600
"""Characters before the sentence that count; each candidate is read after them."""

_MAX_BEHIND: Final = 300
"""Characters of the sentence after the word that count."""


class Swap(NamedTuple):
    """A word of a text and what stands around it.

    Attributes:
        before: What counts of the text before the word.
        after: What counts of the sentence after it.
        sentence: Before and after the word in its sentence.
        starts_sentence: Whether the word does.
    """

    word: str
    before: str
    after: str
    sentence: tuple[str, str]
    starts_sentence: bool

    @classmethod
    def of(cls, text: str, start: int, end: int) -> "Swap":
        """Cut out a word of a text, with as much around it as counts for the ranking."""
        first, last = sentence_around(text, start, end)
        starts = not any(map(str.isalnum, text[first:start]))
        least = max(first - _MAX_BEFORE, start - 2 * _MAX_BEFORE, 0)
        if least:
            # Not from inside a word.
            least = text.find(" ", least, start) + 1 or least
        return cls(
            text[start:end],
            # The first token of a text has no probability.
            text[least:start] if text[least:start].strip() else LINE_BREAK,
            text[end:last][:_MAX_BEHIND],
            (text[first:start], text[end:last]),
            starts,
        )


class Swapper:
    """Finds other words for a word of a text and ranks them with the engine of ``rows``."""

    def __init__(self, finder: NextWordFinder, rows: RowAnswerer) -> None:
        self._finder = finder
        self._rows = rows
        self._near: LRUCache[tuple[str, int], _NearWords] = LRUCache(_MAX_LISTS)

    async def rank(self, swap: Swap, task: ToolTask) -> tuple[float, list[tuple[str, float]]]:
        """Return a word's own score in its place, and all candidates for it with theirs, the best first.

        Raises:
            EngineError: As of ``NextWordFinder.find``.
        """
        found = await self._finder.find(swap.before, task, top=_NUM_NEXT, is_whole=True)
        meant = await self._find_synonyms(swap.word, task)
        listed = await self._near_words(task)
        candidates = list(_as_written((*(word.text for word in found.words), *meant), swap, listed))
        candidates = await asyncio.to_thread(listed.standing, candidates, swap)
        own, *scores = await self.scores(swap, (swap.word, *candidates), task)
        return own, sorted(zip(candidates, scores, strict=True), key=lambda pair: -pair[1])

    async def best(self, swap: Swap, task: ToolTask) -> str:
        """Return the listed word that means the same and fits best; empty for none.

        Raises:
            EngineError: As of ``NextWordFinder.find``.
        """
        meant = await self._find_synonyms(swap.word, task)
        listed = await self._near_words(task)
        # Of two that are written alike, the likelier comes later and stays.
        ascending = sorted(meant, key=meant.__getitem__)
        written = {next(iter(_as_written((word,), swap, listed)), ""): meant[word] for word in ascending}
        written.pop("", None)
        standing = await asyncio.to_thread(listed.standing, list(written), swap)
        written = {word: written[word] for word in standing}
        if not written:
            return ""
        scores = await self.scores(swap, list(written), task)
        together = {word: log_p + score for (word, log_p), score in zip(written.items(), scores, strict=True)}
        return max(together, key=together.__getitem__)

    async def scores(self, swap: Swap, words: Sequence[str], task: ToolTask) -> list[float]:
        """Score words in the swap's place: log p of each with what stands after it.

        Raises:
            EngineError: As of ``NextWordFinder.tokens``.
        """
        texts = await self._finder.tokens([swap.before + word + swap.after for word in words], task.caller)
        columns = enumerate(zip(*texts, strict=False))
        shared = next((place for place, column in columns if len(set(column)) > 1), min(map(len, texts)))
        pairs = [(tokens[:shared], tokens[shared:]) for tokens in texts]
        scores = await self._rows.scores(pairs, "s", task.caller, task.width)
        task.num_read += sum(map(len, texts))
        return list(map(sum, scores))

    async def _find_synonyms(self, word: str, task: ToolTask) -> dict[str, float]:
        """Ask the model for words of the same meaning, and add near words; each with log p of that."""
        near_words = await self._near_words(task)
        asked = _SAME_MEANING_IN.get(near_words.language, _SAME_MEANING).format(word)
        found = await self._finder.find(asked, task, top=_NUM_MEANT, is_whole=True)
        words = {one.text: one.log_p for one in found.words}
        for one, log_p in (await asyncio.to_thread(near_words.near, word)).items():
            words[one] = max(words.get(one, log_p), log_p)
        parts = word.replace("-", " ")
        if parts != word and all(part in near_words.words for part in parts.split()):
            # "sea chest" for "sea-chest"
            words[parts] = _LOG_P_OF_FORMS
        return words

    async def _near_words(self, task: ToolTask) -> "_NearWords":
        key = task.request.vocabulary.id, task.listed.n_words
        if key not in self._near:
            self._near[key] = await asyncio.to_thread(_NearWords, task.listed)
        return self._near[key]


class _NearWords:
    """The words of a list that are near others: forms of a lemma, and what is spelled alike."""

    def __init__(self, listed: NodeList) -> None:
        word_list, changes, n_words = listed.listed.word_list, listed.changes, listed.n_words
        left_out = ranks_left_out(word_list, changes.exclude_words)
        counted = (word for rank, word in word_list.up_to(n_words).ranked() if rank not in left_out)
        self.language = listed.language
        self._segments = listed.segments
        self.words = frozenset((*counted, *changes.extra_words))
        self._nearest = NearestWords(word_list, n_words, left_out, changes.extra_words)

    def near(self, word: str) -> dict[str, float]:
        """Return a word's near words, each with the log p that it counts for as answer to ``_SAME_MEANING``.

        There are none in a language without spaces, whose short words are spelled alike by chance.
        """
        if self._segments is not None:
            return {}
        note = self._nearest.note(unicodedata.normalize("NFC", word), None, _NUM_NEIGHBOURS)
        lemmas = KnownLemmas.of_language(self.language)
        is_form = {one.word: note.lemma is not None and lemmas.of(one.word) == note.lemma for one in note.nearest}
        return {one: _LOG_P_OF_FORMS if is_form[one] else _LOG_P_OF_NEAR for one in is_form}

    def standing(self, words: Sequence[str], swap: Swap) -> list[str]:
        """Return those of some words that are words in the swap's place: without spaces, others may come about."""
        segments, (before, after) = self._segments, swap.sentence
        return [word for word in words if segments is None or segments.has_word(before, word, after)]


def _as_written(words: Iterable[str], swap: Swap, listed: "_NearWords") -> Iterable[str]:
    """Adapt the capitals of words to the swap's place; yield each once, without the word itself."""
    capitals = Capitals(listed.language)
    seen = {swap.word.casefold()}
    for word in words:
        written = (capitals.of(word) or word) if swap.starts_sentence and swap.word[:1].isupper() else word
        if not swap.starts_sentence and word != (small := word.lower()) and small in listed.words:
            # "Bed" inside a sentence is "bed", where the list does not have it with a capital only.
            written = small
        if written.casefold() not in seen:
            seen.add(written.casefold())
            yield written


def check_segment(text: str, start: int, end: int, listed: NodeList) -> None:
    """Refuse what is not one word of a text without spaces.

    Raises:
        EngineError: With status 400; it names the word nearest to ``start``.
    """
    if listed.segments is None:
        return
    spans = listed.segments.spans(text)
    if (start, end) in spans or not spans:
        return
    first, last = min(spans, key=lambda span: abs(span[0] - start))
    raise EngineError(
        400,
        f"'start' and 'end' must be those of one word of 'text'; the nearest is {printable(text[first:last])!r}, "
        f"from {first} to {last}.",
        param="start",
    )
