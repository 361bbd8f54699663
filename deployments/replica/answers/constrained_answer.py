"""Read a constrained answer again: trim what stands past the last whole word or sentence, and add the ``vocab`` block.

It works on the JSON of an answer or of a stream's chunks. What is a whole text is decided by a reader of text that
shares nothing with the automaton.

A text is cut by a stop string (the automaton does not see it), and under ``MASK_ENGINE=xgrammar`` or a reasoning
parser also by ``max_tokens``. There, and only there, the last part is trimmed, in streams too: before a stop string to
whole words, for that is where the client ends it, else to whole sentences where these were asked for. Anywhere else a
text that is not whole is our own fault, and the answer an error. A stream sends a word once it was read whole, so that
no other word leaves even then.
"""

import logging
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from deployments.contract import ENGINE_START_S, UNLISTED_TEXT
from deployments.errors import ApiError, EngineError, OverloadedError
from deployments.metrics import LOG_MASS, WORDS
from deployments.replica.answers.authoring import AuthoredText
from deployments.search.request import AnswerCost
from vocab.errors import VocabularyError
from vocab.marks import CLOSE_MARKS, SENTENCE_MARKS, UNSPACED_SENTENCE_MARKS
from vocab.matching.structure.answers import AnswerReader, FollowedAnswer
from vocab.text.reader import UNKNOWN_FOLLOWING, FollowedText, TextReader

logger = logging.getLogger("ray.serve")

_THOUGHTS: Final = "reasoning"
"""The member of a message or delta in which vLLM gives what a model thought before its answer."""

_LOOKS: Final = 32
"""A text without sentences, as of ``punctuation: none``, is read again when it has grown by this part of itself."""

_SENTENCE_START: Final = re.compile(
    rf"(?:[{re.escape(SENTENCE_MARKS)}][{re.escape(CLOSE_MARKS)}]{{0,3}} |[{UNSPACED_SENTENCE_MARKS}]|\n)(?=[^\W_])"
)
"""Up to where a text goes on as a new text would begin: after a sentence, or a line."""


class UnlistedTextError(Exception):
    """The engine wrote a text that the list does not allow: our own fault, never shown as an answer."""


@dataclass(frozen=True)
class AnswerRules:
    """How the answer to one constrained request is checked, trimmed and reported.

    Attributes:
        block: The part of the ``vocab`` block that does not depend on the answer.
        may_be_cut: The engine may end a text inside a word where it runs into ``max_tokens``.
        has_stop: A stop string may end a text anywhere.
        stop_in_text: The client wants the stop string in the text.
        has_whole_parts: No part of a stream ends inside a word.
        shows_thoughts: What a model thought first is part of the answer; it is free text.
        authored: What the author asked beyond the list; None for nothing.
    """

    reader: TextReader | AnswerReader
    block: dict[str, Any]
    may_be_cut: bool
    has_stop: bool = False
    stop_in_text: bool = False
    has_whole_parts: bool = False
    shows_thoughts: bool = True
    authored: AuthoredText | None = None

    @property
    def may_be_trimmed(self) -> bool:
        return self.may_be_cut or self.has_stop

    @cached_property
    def broken_off(self) -> TextReader | AnswerReader:
        """Return the reader of texts that a stop string has ended. JSON has none."""
        return self.reader.of_broken_off() if isinstance(self.reader, TextReader) else self.reader

    def whole_length(self, text: str, choice: dict[str, Any]) -> int:
        """Return how many characters of a finished text are whole; the rest is trimmed.

        Raises:
            UnlistedTextError: The text is not whole although nothing could have cut it.
        """
        reason = choice.get("stop_reason")
        # A number is the model's own end token: with a vocabulary, clients cannot name any.
        if isinstance(reason, str):
            return self._length_to_stop(text, reason)
        length = self.reader.whole_prefix_length(text)
        if length < len(text) and not (self.may_be_trimmed and choice.get("finish_reason") in ("stop", "length")):
            raise UnlistedTextError(f"kept {length} of {len(text)} characters")
        return length

    def _length_to_stop(self, text: str, stop: str) -> int:
        """Return how many characters of a text that a stop string ended are whole words and marks."""
        reader = self.broken_off
        if not self.stop_in_text or not isinstance(reader, TextReader):
            return reader.whole_prefix_length(text, stop)
        # What came after it is not known. It stays where all up to its end is listed.
        return len(text) if reader.is_between_words(text) else reader.whole_prefix_length(text, UNKNOWN_FOLLOWING)

    def vocab_block(self, texts: list[str], cost: AnswerCost | None = None) -> dict[str, Any]:
        """Return the ``vocab`` block of these texts: the sum of their words, the largest of other counts.

        ``cost`` is that of the first; None where it is not known.

        Raises:
            UnlistedTextError: A text has more new words than were asked for.
        """
        reader = self.broken_off if self.has_stop else self.reader
        if self.stop_in_text:
            # A stop string may end with a blank, or with a mark that opens what would follow.
            texts = [text[: reader.whole_prefix_length(text)] for text in texts]
        read = [reader.coverage(text) for text in texts if text]
        block = {
            **self.block,
            "num_words": sum(coverage.num_words for coverage in read),
            "num_distinct_words": max((coverage.num_distinct_words for coverage in read), default=0),
            "max_rank": max((coverage.max_rank for coverage in read), default=0),
        }
        if block["num_words"]:
            WORDS.inc(block["num_words"])
        if isinstance(reader, AnswerReader):
            block["num_fixed_strings"] = sum(reader.num_fixed_strings(text) for text in texts if text)
        if self.authored is not None:
            if any(map(self.authored.has_too_many_new_words, texts)):
                raise UnlistedTextError("there are more new words than were asked for")
            block |= self.authored.block(texts)
        if cost is None or not texts:
            return block
        cost_block = cost.block(texts[0], read[0].num_words if texts[0] else 0)
        if (log_mass := cost_block.get("log_mass_per_word")) is not None:
            LOG_MASS.observe(log_mass)
        return block | cost_block


def finish_answer(answer: dict[str, Any], rules: AnswerRules, cost: AnswerCost | None = None) -> dict[str, Any]:
    """Trim a whole answer in place and add its ``vocab`` block. ``cost`` is None where it was not asked for.

    Raises:
        UnlistedTextError: The engine did not keep to the list.
    """
    texts = []
    for choice in answer["choices"]:
        if not rules.shows_thoughts:
            choice["message"].pop(_THOUGHTS, None)
        text = choice["message"].get("content") or ""
        length = rules.whole_length(text, choice)
        if length < len(text) or isinstance(choice.get("stop_reason"), str):
            choice["message"]["content"] = text[:length]
            _cut_logprobs(choice, _num_bytes(text[:length]))
        texts.append(text[:length])
    answer["vocab"] = rules.vocab_block(texts, cost)
    return answer


@dataclass
class _ChoiceText:
    """One choice of a stream: its text so far, and how much of it was sent.

    ``followed`` is the text as far as it was read. Where it may be trimmed, ``reader`` reads it from
    ``sentence_start``, where the last sentence of the sent text starts. Reading 4,000 characters takes 60 ms, too much
    for each chunk; ``num_read`` is the length of the text when it was read last.
    """

    followed: FollowedText | FollowedAnswer
    reader: TextReader | AnswerReader
    text: str = ""
    num_sent: int = 0
    num_read: int = 0
    sentence_start: int = 0
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    num_logprob_bytes_sent: int = 0
    token_ids: list[int] = field(default_factory=list)


class StreamFilter:
    """Pass the chunks of one stream on, trimmed and with the ``vocab`` block in the last one.

    Chunks that may be the last (those that end a choice, and the one with the usage) are held until the next one or
    the end of the stream. Text is held until a later boundary proves its words whole, or, where it may be trimmed,
    until what was written may be the end of the text.
    """

    def __init__(self, rules: AnswerRules) -> None:
        self._rules = rules
        self._choices: dict[int, _ChoiceText] = {}
        self._held: dict[str, Any] | None = None

    def pass_on(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """Take the engine's next chunk; return the chunks that can be sent now.

        Raises:
            UnlistedTextError: The engine did not keep to the list.
        """
        ready = [] if self._held is None else [self._held]
        self._held = None
        finishes, changed = not chunk["choices"], False
        for choice in chunk["choices"]:
            finishes = finishes or choice.get("finish_reason") is not None
            changed = self._filter_delta(choice) or changed
        if finishes:
            self._held = chunk
        elif changed:
            ready.append(chunk)
        return ready

    def finish(self, cost: AnswerCost | None = None) -> list[dict[str, Any]]:
        """Return the last chunk, with the ``vocab`` block; ``cost`` is None where it was not asked for."""
        if self._held is None:
            return []
        texts = [choice.text for _, choice in sorted(self._choices.items())]
        return [{**self._held, "vocab": self._rules.vocab_block(texts, cost)}]

    def _filter_delta(self, choice: dict[str, Any]) -> bool:
        """Add a choice's delta to its text and leave in the delta only what can be sent now.

        Return False where that is nothing.
        """
        delta = choice["delta"]
        if not self._rules.shows_thoughts:
            delta.pop(_THOUGHTS, None)
        state = self._choices.get(choice["index"])
        if state is None:
            state = self._choices[choice["index"]] = self._begin()
        written = delta.get("content") or ""
        state.text += written
        is_finished = choice.get("finish_reason") is not None
        if is_finished:
            # A later reading may find a shorter prefix (a boundary inside a longer entry), but what was sent stays
            # sent.
            end = max(self._rules.whole_length(state.text, choice), state.num_sent)
            state.text = state.text[:end]
        elif self._rules.may_be_trimmed:
            end = max(_whole_so_far(state), state.num_sent)
        else:
            end = _num_whole(state.followed, written)
            if self._rules.has_whole_parts and state.followed.is_settled:
                end = len(state.text)
        ready, state.num_sent = state.text[state.num_sent : end], max(end, state.num_sent)
        if ready and self._rules.may_be_trimmed:
            _move_on(state, end)
        has_ids = _take_token_ids(choice, state, has_text=bool(written) or is_finished)
        if not ready and "content" not in delta:
            return self._rules.shows_thoughts or bool(delta) or is_finished
        delta["content"] = ready
        # Of an answer that nothing cut all are sent, that of the stop token too.
        num_bytes = None if is_finished and not self._rules.may_be_trimmed else _num_bytes(state.text[:end])
        has_logprobs = _take_logprobs(choice, state, num_bytes)
        is_needed = is_finished or "role" in delta or bool(delta.get(_THOUGHTS))
        return bool(ready) or has_ids or has_logprobs or is_needed

    def _begin(self) -> _ChoiceText:
        rules = self._rules
        # Where ``max_tokens`` cuts too, what is sent must be whole for both.
        only_at_stop = rules.has_stop and not rules.may_be_cut
        return _ChoiceText(rules.reader.follow(), rules.broken_off if only_at_stop else rules.reader)


def _whole_so_far(state: _ChoiceText) -> int:
    """Return how many characters of an unfinished text are whole; read it again only when much longer."""
    rest = state.text[state.sentence_start :]
    if len(state.text) - state.num_read < len(rest) // _LOOKS:
        return state.num_sent
    state.num_read = len(state.text)
    return state.sentence_start + state.reader.whole_prefix_length(rest, UNKNOWN_FOLLOWING)


def _move_on(state: _ChoiceText, end: int) -> None:
    """Move ``sentence_start`` to the last sentence of the sent text from which the rest can be read."""
    for found in _SENTENCE_START.finditer(state.text, state.sentence_start, end):
        if not isinstance(state.reader, TextReader):
            return
        # In "Dr. Ana", one entry, no sentence starts: what follows cannot be read without its beginning.
        reader = state.reader.after(state.text[state.sentence_start : found.end()], is_whole=True)
        sentence = state.text[found.end() : end]
        if reader.whole_prefix_length(sentence) == len(sentence):
            state.reader, state.sentence_start = reader, found.end()


def _num_whole(followed: FollowedText | FollowedAnswer, written: str) -> int:
    """Add what was written to a text; return how many characters of it are whole words.

    Raises:
        UnlistedTextError: It begins no text that the list allows.
    """
    if not followed.add(written):
        raise UnlistedTextError(f"stopped after {followed.num_whole} characters")
    return followed.num_whole


def _take_token_ids(choice: dict[str, Any], state: _ChoiceText, *, has_text: bool) -> bool:
    """Hold back a choice's token ids until all of their text can be sent; return whether some are sent.

    Those of half a character have no text yet.
    """
    if not choice.get("token_ids"):
        return False
    state.token_ids += choice["token_ids"]
    choice["token_ids"] = []
    if state.num_sent < len(state.text) or not has_text:
        return False
    choice["token_ids"], state.token_ids = state.token_ids, []
    return True


def _take_logprobs(choice: dict[str, Any], state: _ChoiceText, num_bytes: int | None) -> bool:
    """Hold back logprobs of text after the first ``num_bytes`` (None for none); return whether some are sent.

    The rest waits, and what is past a trim is never sent.
    """
    if not choice.get("logprobs"):
        return False
    state.logprobs.extend(choice["logprobs"].get("content") or [])
    ready = []
    while state.logprobs:
        after = state.num_logprob_bytes_sent + _entry_bytes(state.logprobs[0])
        if num_bytes is not None and after > num_bytes:
            break
        ready.append(state.logprobs.pop(0))
        state.num_logprob_bytes_sent = after
    choice["logprobs"]["content"] = ready
    return bool(ready)


def _cut_logprobs(choice: dict[str, Any], num_bytes: int) -> None:
    """Drop the logprobs of tokens whose text is after the first ``num_bytes``."""
    entries = (choice.get("logprobs") or {}).get("content")
    if not entries:
        return
    end, num_kept = 0, 0
    for entry in entries:
        end += _entry_bytes(entry)
        if end > num_bytes:
            break
        num_kept += 1
    del entries[num_kept:]


def _entry_bytes(entry: dict[str, Any]) -> int:
    spelled = entry.get("bytes")
    return len(spelled) if spelled is not None else _num_bytes(entry["token"])


def _num_bytes(text: str) -> int:
    return len(text.encode())


def to_engine_error(error: Exception, request_id: str) -> ApiError:
    """Map an exception to the error that the client gets, and log faults of the service."""
    if isinstance(error, OverloadedError):
        # The vocabulary deployment is away, and the list is not on this node.
        return EngineError(error.status, error.message, code=error.code, retry_after_s=ENGINE_START_S)
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UnlistedTextError):
        logger.error("request %s: the engine did not keep to the list (%s)", request_id, error)
        return EngineError(500, "The engine did not keep to the word list, so there is no answer.", code=UNLISTED_TEXT)
    if isinstance(error, VocabularyError):
        logger.error("request %s: %s", request_id, error)
    else:
        logger.exception("request %s failed", request_id, exc_info=error)
    return EngineError(500, "The engine failed on this request; it can be sent again.", code="engine_error")
