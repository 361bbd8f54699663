"""What may come next in a run: any token, the texts of a word list, or those of a grammar."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from typing_extensions import override

from wordbound.lm.gathering import num_equal
from wordbound.lm.programs.events import RunError

if TYPE_CHECKING:
    from wordbound.lm.word_list import WordList

# llguidance reports 0.0 where no rule has set a temperature yet, and ignores a rule's 0.
_SETS_ZERO: Final = re.compile(r"^(\s*[?!]?\w+\s*\[[^\]\n]*\btemperature\s*=\s*)0(\.0*)?(?=\s*[,\]])", re.MULTILINE)

RawCaptures: TypeAlias = dict[str, bytes | list[bytes]]
"""By name, what a grammar captured; lists for groups that it captures as lists."""


class Change(NamedTuple):
    """How an accepted token changes a text: so many tokens are removed from its end, then these are added."""

    backtrack: int
    tokens: list[int]


@dataclass(frozen=True, slots=True)
class Place:
    """What a constraint says of a place in a text.

    Attributes:
        mask: bool (V,), the tokens that may come next, ends of text among them; None for all.
        is_complete: The text may end here.
        is_done: Nothing may come: the text has ended.
        captures: What was captured so far.
        temperature: The constraint's own for the next token; None where it has none.
    """

    mask: torch.Tensor | None
    is_complete: bool
    is_done: bool = False
    captures: RawCaptures = field(default_factory=dict)
    temperature: float | None = None

    def masked(self, row: torch.Tensor) -> torch.Tensor:
        """Return a row, (V,), with -inf for what may not come; RunError where the mask is of another width."""
        if self.mask is None:
            return row
        if self.mask.shape != row.shape:
            raise RunError(
                f"the constraint is of {len(self.mask)} tokens and the model of {len(row)}: give it this model's"
            )
        return row.masked_fill(~self.mask, -torch.inf)


class Constraint(ABC):
    """Follows the text of one run."""

    eos_token_ids: Collection[int] = ()
    """The tokens that end a text."""

    ends_at_refused: bool = False
    """Whether a text that may end does end where the model itself draws a token that is not allowed."""

    is_slow: bool = False
    """Whether ``place`` is worth a thread of its own, beside a forward pass."""

    @property
    def will_end(self) -> bool:
        """Whether it is known, before ``place`` is asked, that nothing may come."""
        return False

    @abstractmethod
    def start(self, prompt: Sequence[int]) -> Change:
        """Go to the beginning of the text after a prompt, whose last tokens may be spelled anew."""

    @abstractmethod
    def accept(self, token: int) -> Change:
        """Take the next token, and those that must follow it.

        Raises:
            RunError: It is not allowed.
        """

    @abstractmethod
    def place(self, tokens_left: int) -> Place:
        """Return what may come, where at most ``tokens_left`` tokens are added."""


class Unconstrained(Constraint):
    """Any text."""

    def __init__(self, eos_token_ids: Collection[int]) -> None:
        self.eos_token_ids = frozenset(eos_token_ids)
        self._has_ended = False

    @override
    def start(self, prompt: Sequence[int]) -> Change:
        self._has_ended = False
        return Change(0, [])

    @override
    def accept(self, token: int) -> Change:
        self._has_ended = token in self.eos_token_ids
        return Change(0, [token])

    @override
    def place(self, tokens_left: int) -> Place:
        return Place(None, is_complete=True, is_done=self._has_ended)


class ListConstraint(Constraint):
    """The texts of a word list; each ends whole within the tokens that are left.

    ``eos_token_ids`` end a text too where it is complete.
    """

    def __init__(self, words: "WordList", eos_token_ids: Collection[int] = ()) -> None:
        self._words = words
        self._added_ends = sorted(set(eos_token_ids).difference(words.eos_token_ids))
        self.eos_token_ids = frozenset(words.eos_token_ids).union(self._added_ends)
        self._state = words.start
        self._has_ended = False

    @override
    def start(self, prompt: Sequence[int]) -> Change:
        self._state, self._has_ended = self._words.start, False
        return Change(0, [])

    @override
    def accept(self, token: int) -> Change:
        try:
            self._state = self._words.next(self._state, token)
        except ValueError as error:
            raise RunError(str(error)) from None
        self._has_ended = token in self.eos_token_ids
        return Change(0, [token])

    @override
    def place(self, tokens_left: int) -> Place:
        if self._has_ended:
            return Place(None, is_complete=True, is_done=True)
        mask, is_complete = self._words.mask(self._state, tokens_left).cpu(), self._words.is_complete(self._state)
        if is_complete and self._added_ends:
            mask = mask.index_fill(0, torch.tensor(self._added_ends), True)
        return Place(mask, is_complete)


class GrammarConstraint(Constraint):
    """The texts of a grammar of llguidance, followed by its ``LLInterpreter``; RunError where it cannot be compiled.

    ``backtrack`` is whether the grammar may remove tokens that it spells otherwise, ``fast_forward`` whether tokens
    that must follow are added at once.
    """

    ends_at_refused = True
    is_slow = True

    def __init__(self, tokenizer: Any, grammar: str, *, backtrack: bool, fast_forward: bool) -> None:
        import llguidance

        try:
            self._fresh = llguidance.LLInterpreter(tokenizer, grammar, backtrack, fast_forward, log_level=0)
        except ValueError as error:
            raise RunError(f"the grammar cannot be used: {error}") from None
        self.eos_token_ids = frozenset(getattr(tokenizer, "eos_tokens", [tokenizer.eos_token]))
        self._interpreter = self._fresh
        self._captures: RawCaptures = {}
        self._place: Place | None = None

    @override
    def start(self, prompt: Sequence[int]) -> Change:
        self._interpreter = self._fresh.deep_copy()
        self._captures, self._place = {}, None
        old, new = list(prompt), self._interpreter.process_prompt(list(prompt))
        if not new or new[0] != old[0]:
            # A model needs a token to go on from, so a prompt of one is not spelled anew.
            self._interpreter = self._fresh.deep_copy()
            self._interpreter.start_without_prompt()
            return Change(0, [])
        num_same = num_equal(old, new)
        return Change(len(old) - num_same, new[num_same:])

    @override
    def accept(self, token: int) -> Change:
        place = self.place(0)
        if place.mask is None or not place.mask[token]:
            raise RunError(f"the grammar does not allow token {token} here")
        self._place = None
        return Change(*self._interpreter.commit_token(token))

    @override
    def place(self, tokens_left: int) -> Place:
        if self._place is None:
            mask, report = self._interpreter.compute_mask()
            found = json.loads(report)
            self._read(found["progress"])
            allowed = None if mask is None else torch.from_numpy(np.frombuffer(mask, np.uint8) != 0)
            self._place = Place(
                allowed,
                self._interpreter.is_accepting(),
                is_done=mask is None,
                captures=dict(self._captures),
                temperature=found.get("temperature") or None,
            )
        return self._place

    @property
    @override
    def will_end(self) -> bool:
        return bool(self._interpreter.has_pending_stop())

    def _read(self, progress: list[dict[str, Any]]) -> None:
        for item in progress:
            if item["object"] != "capture":
                continue
            name, captured = item["name"], bytes.fromhex(item["hex"])
            if item.get("list_append") or name.startswith("__LIST_APPEND:"):
                name = name.removeprefix("__LIST_APPEND:")
                earlier = self._captures.get(name, [])
                self._captures[name] = [*(earlier if isinstance(earlier, list) else []), captured]
            else:
                self._captures[name] = captured


@lru_cache(maxsize=8)
def llguidance_tokenizer(tokenizer: Any, vocab_size: int, eos_token_ids: tuple[int, ...]) -> Any:
    """Return the ``LLTokenizer`` of a fast tokenizer of transformers, else ValueError; takes about a second, once."""
    from llguidance.hf import from_tokenizer

    if not eos_token_ids:
        raise ValueError("a grammar needs a token that ends a text: give eos_token_ids")
    try:
        # llguidance before 1.7, which guidance asks for, takes one only.
        eos_token = eos_token_ids[0] if len(eos_token_ids) == 1 else list(eos_token_ids)
        return from_tokenizer(tokenizer, n_vocab=vocab_size, eos_token=eos_token)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"grammars need a fast tokenizer of transformers, and llguidance 1.7 for several eos_token_ids: {error}"
        ) from None


def llguidance_grammar(lark: str | None, regex: str | None, json_schema: str | Mapping[str, Any] | None) -> str:
    """Return the one that is given as llguidance's own JSON. Whether it is valid is found out when it is used."""
    from llguidance import LLMatcher

    if lark is not None:
        grammar = LLMatcher.grammar_from_lark(_SETS_ZERO.sub(r"\g<1>0.000001", lark))
    elif regex is not None:
        grammar = LLMatcher.grammar_from_regex(regex)
    else:
        grammar = LLMatcher.grammar_from_json_schema(
            json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
        )
    return str(grammar)
