"""The gate that every constrained text passes: it is read again, and only whole words of its list leave.

What is a whole text is decided by a reader of text that shares nothing with the automaton.

A text is cut by a stop string (the automaton does not see it), and under ``MASK_ENGINE=xgrammar`` or a reasoning
parser also by ``max_tokens``. There, and only there, the last part is trimmed, in streams too: before a stop string to
whole words, for that is where the client ends it, else to whole sentences where these were asked for. Anywhere else a
text that is not whole is our own fault, and the answer an error. A stream sends a word once it was read whole, so that
no other word leaves even then.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

from deployments.contract import ENGINE_START_S, UNLISTED_TEXT
from deployments.errors import ApiError, EngineError, OverloadedError
from deployments.metrics import LOG_MASS, WORDS
from deployments.replica.answers.authoring import AuthoredText
from deployments.replica.answers.pieces import Draft, Piece
from deployments.search.logprobs import Entry
from deployments.search.outcome import AnswerCost
from vocab.errors import VocabularyError
from vocab.matching.structure.answers import AnswerReader, FollowedAnswer
from vocab.text.reader import UNKNOWN_FOLLOWING, FollowedText, TextReader
from vocab.vllm_plugin.retrying import Retries

logger = logging.getLogger("ray.serve")


_FEW_CHARACTERS: Final = 4096
"""Read in less than 1 ms; JSON takes longer."""

P = ParamSpec("P")
T = TypeVar("T")


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
        shows_thoughts: What a model thought first is part of the answer; it is free text.
        authored: What the author asked beyond the list; None for nothing.
    """

    reader: TextReader | AnswerReader
    block: dict[str, Any]
    may_be_cut: bool
    has_stop: bool = False
    stop_in_text: bool = False
    shows_thoughts: bool = True
    authored: AuthoredText | None = None

    @property
    def may_be_trimmed(self) -> bool:
        return self.may_be_cut or self.has_stop

    @cached_property
    def broken_off(self) -> TextReader | AnswerReader:
        """Return the reader of texts that a stop string has ended. JSON has none."""
        return self.reader.of_broken_off() if isinstance(self.reader, TextReader) else self.reader

    def whole_length(self, text: str, piece: Piece) -> int:
        """Return how many characters of a text that ends with a piece are whole; the rest is trimmed.

        Raises:
            UnlistedTextError: The text is not whole although nothing could have cut it.
        """
        # A number is the model's own end token: with a vocabulary, clients cannot name any.
        if isinstance(piece.stop_reason, str):
            return self._length_to_stop(text, piece.stop_reason)
        length = self.reader.whole_prefix_length(text)
        if length < len(text) and not (self.may_be_trimmed and piece.finish in ("stop", "length")):
            raise UnlistedTextError(f"kept {length} of {len(text)} characters")
        return length

    def _length_to_stop(self, text: str, stop: str) -> int:
        """Return how many characters of a text that a stop string ended are whole words and marks."""
        reader = self.broken_off
        if not self.stop_in_text or not isinstance(reader, TextReader):
            return reader.whole_prefix_length(text, stop)
        # What came after it is not known. It stays where all up to its end is listed.
        return len(text) if reader.is_between_words(text) else reader.whole_prefix_length(text, UNKNOWN_FOLLOWING)

    def vocab_block(
        self, texts: list[str], cost: AnswerCost | None = None, retries: Retries | None = None
    ) -> dict[str, Any]:
        """Return the ``vocab`` block of these texts: the sum of their words, the largest of other counts.

        ``cost`` is that of the first; None where it is not known. ``retries`` are of all; None where there are none.

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
        if retries is not None:
            block["rescue"] = asdict(retries)
        if cost is None or not texts:
            return block
        cost_block = cost.block(texts[0], read[0].num_words if texts[0] else 0)
        if (log_mass := cost_block.get("log_mass_per_word")) is not None:
            LOG_MASS.observe(log_mass)
        return block | cost_block


@dataclass
class _Choice:
    """One choice of an answer: its text so far, how much of it was sent, and what waits for the rest to be sent.

    ``num_entry_bytes`` are of the entries that were sent.
    """

    followed: FollowedText | FollowedAnswer
    text: str = ""
    num_sent: int = 0
    entries: list[Entry] = field(default_factory=list)
    num_entry_bytes: int = 0
    tokens: list[int] = field(default_factory=list)


class Gate:
    """Lets the pieces of one answer pass as far as their text is read to be whole.

    Text is held until a later boundary proves its words whole, but for the first word, or, where it may be trimmed,
    until what was written may be the end of the text. Log-probabilities, details and token ids are held with it.
    """

    def __init__(self, rules: AnswerRules) -> None:
        self._rules = rules
        self._choices: dict[int, _Choice] = {}

    async def end(self, piece: Piece) -> Piece:
        """Take the last piece of a choice; return what is left of it, trimmed.

        Raises:
            UnlistedTextError: The engine did not keep to the list.
        """
        choice = self._take(piece)
        end = await self._read(self._rules.whole_length, choice.text, piece)
        # A later reading may find a shorter prefix (a boundary inside a longer entry), but what was sent stays sent.
        end = max(end, choice.num_sent)
        is_cut = end < len(choice.text) or isinstance(piece.stop_reason, str)
        choice.text = choice.text[:end]
        # Of an answer that nothing cut all are sent, that of the stop token too.
        return self._release(choice, piece, end, None if is_cut else len(choice.entries))

    def pass_on(self, piece: Piece) -> Piece | None:
        """Take a piece after which its choice goes on; return what of it can be sent now, None for nothing.

        Raises:
            UnlistedTextError: The engine did not keep to the list.
        """
        choice = self._take(piece)
        followed = choice.followed
        if not followed.add(piece.text) and not self._rules.may_be_trimmed:
            raise UnlistedTextError(f"stopped after {followed.num_whole} characters")
        if self._rules.may_be_trimmed:
            end = followed.num_complete
        elif followed.is_settled and self._may_be_at_once(choice, piece):
            end = len(choice.text)
        else:
            end = followed.num_whole
        has_text = bool(piece.text)
        passed = self._release(choice, piece, max(end, choice.num_sent), None)
        if choice.num_sent < len(choice.text) or not has_text:
            # Those of half a character have no text yet.
            passed.tokens, choice.tokens = (), [*passed.tokens]
        return passed if passed.text or passed.entries or passed.tokens or passed.thoughts else None

    def _may_be_at_once(self, choice: _Choice, piece: Piece) -> bool:
        """Return whether a listed word may be sent though it may go on as another one.

        That is the first of a text: the client waits for it, and the next token would only show that it is whole.
        """
        is_first = choice.followed.num_whole == choice.num_sent == 0
        return (is_first or piece.is_whole) and isinstance(self._rules.reader, TextReader)

    def _take(self, piece: Piece) -> _Choice:
        """Add a piece to its choice."""
        choice = self._choices.get(piece.index)
        if choice is None:
            rules = self._rules
            reader = rules.broken_off if rules.has_stop and not rules.may_be_cut else rules.reader
            choice = self._choices[piece.index] = _Choice(reader.follow())
        choice.text += piece.text
        choice.entries += piece.entries
        choice.tokens += piece.tokens
        return choice

    def _release(self, choice: _Choice, piece: Piece, end: int, num_entries: int | None) -> Piece:
        """Return a piece with what of its choice may be sent up to ``end``; the number of entries is None for as many.

        Entries are sent once all bytes of theirs are.
        """
        piece.text, choice.num_sent = choice.text[choice.num_sent : end], end
        if not self._rules.shows_thoughts:
            piece.thoughts = None
        if num_entries is None:
            num_entries, num_bytes = 0, len(choice.text[:end].encode()) if choice.entries else 0
            for entry in choice.entries:
                if choice.num_entry_bytes + entry.num_bytes > num_bytes:
                    break
                choice.num_entry_bytes += entry.num_bytes
                num_entries += 1
        piece.entries, choice.entries = choice.entries[:num_entries], choice.entries[num_entries:]
        piece.tokens, choice.tokens = choice.tokens, []
        return piece

    async def vocab_block(self, draft: Draft) -> dict[str, Any]:
        """Return the ``vocab`` block of the whole answer.

        Raises:
            UnlistedTextError: A text has more new words than were asked for.
        """
        texts = [choice.text for _, choice in sorted(self._choices.items())]
        return await self._read(self._rules.vocab_block, texts, draft.cost, draft.retries)

    async def _read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what reading the answer gives; in a thread where it takes a while, for others wait for this loop."""
        num_characters = sum(len(choice.text) for choice in self._choices.values())
        if num_characters <= _FEW_CHARACTERS and isinstance(self._rules.reader, TextReader):
            return work(*args, **kwargs)
        return await asyncio.to_thread(work, *args, **kwargs)


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
