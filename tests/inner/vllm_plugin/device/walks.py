"""Random texts followed by the kernels in Triton's interpreter and by matchers, whose masks and states must be equal.

Triton interprets where ``TRITON_INTERPRET`` is set before it is imported: this runs in a process of its own.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from vocab.errors import TokenBudgetError
from vocab.matching.matcher import Matcher
from vocab.matching.repeats import Repeats
from vocab.matching.states import NODE, ListStates
from vocab.matching.text_states import State
from vocab.vllm_plugin.device.kernels import MAX_READINGS, SLOT
from vocab.vllm_plugin.device.slots import Slots
from vocab.vllm_plugin.device.tables import Tables

BUDGETS = (None, 60, 25, 12, 4)
NGRAM_SIZES = (0, 4, 2, 3)
MIN_TOKENS = (0, 0, 6, 30)


@dataclass
class Follower:
    """A text in a slot."""

    slot: int
    matcher: Matcher
    dropped: bool = False
    """Whether it has had more readings than a slot has: then the device forbids more, and allows nothing more."""


@dataclass
class Walk:
    """Texts of some states in the slots of one device."""

    states: ListStates
    stops: Sequence[int]
    seed: int
    device: str = "cpu"
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.tables = Tables(torch.device(self.device), 256 * 1024 * 1024)
        self.num_tokens = self.states.words.num_tokens
        # vLLM's logits may be wider than the tokenizer.
        self.slots = Slots(self.tables, 16, self.num_tokens + 70, 256)
        self.num_words = (self.num_tokens + 70 + 31) // 32
        self.num_begun = 0

    def begin(self, slot: int) -> Follower:
        """Begin a text: at the start of a list or after others, with a budget or without."""
        draw, number = self.random, self.num_begun
        self.num_begun += 1
        start, seen = self.states.start, tuple[int, ...]()
        if number % 3 == 2:
            # Several readings, as the union of where two texts led; and tokens before the text.
            start, seen = self.wander()
            start = tuple(sorted({*start, *self.wander()[0]}))[:MAX_READINGS]
        elif len(self.states.frame.places) and number % 2:
            start = self.states.begin(draw.randrange(len(self.states.frame.places)))
            self.counts["place"] += start != self.states.start
        size = NGRAM_SIZES[number % 4]
        options: dict[str, Any] = {"start": start, "min_tokens": MIN_TOKENS[number // 2 % 4]}
        try:
            matcher = Matcher(
                self.states, self.stops, BUDGETS[number % 5], repeats=Repeats(size, seen) if size else None, **options
            )
        except TokenBudgetError:
            matcher = Matcher(self.states, self.stops, repeats=Repeats(size, seen) if size else None, **options)
        self.slots.add(slot, matcher, self.tables.of(self.states))
        return Follower(slot, matcher)

    def wander(self) -> tuple[State, tuple[int, ...]]:
        matcher, tokens = Matcher(self.states, ()), list[int]()
        for _ in range(self.random.randrange(1, 12)):
            allowed = self.mask_tokens(matcher)
            if not allowed:
                break
            tokens.append(self.random.choice(allowed))
            assert matcher.accept_token(tokens[-1])
        return matcher.state, tuple(tokens)

    def mask_tokens(self, matcher: Matcher) -> list[int]:
        row = np.zeros(self.num_words, dtype=np.int32)
        matcher.fill_bitmask(row)
        allowed: list[int] = np.unpackbits(row.view(np.uint8), bitorder="little").nonzero()[0].tolist()
        return allowed

    def run(self, num_texts: int, num_steps: int) -> Counter[str]:
        """Follow so many texts at a time for so many steps; return how often what was met."""
        followers = [self.begin(slot) for slot in self.random.sample(range(16), num_texts)]
        for _ in range(num_steps):
            self.random.shuffle(followers)
            self.step(followers)
        return self.counts

    def step(self, followers: list[Follower]) -> None:
        index = torch.tensor([one.slot for one in followers])
        rows = self.slots.rows(index.numpy())
        assert rows is not None and rows.tolist() == list(range(len(followers)))
        logits = torch.zeros((len(followers), 32 * self.num_words - 3), device=self.device)
        self.slots.mask(logits, index.to(self.device))
        tokens, num_sampled = torch.zeros((len(followers), 1), dtype=torch.int64), torch.ones(len(followers)).int()
        for row, one in enumerate(followers):
            allowed = self.compare(one, logits[row].cpu())
            # A chunk of a prompt samples nothing that counts.
            num_sampled[row] = self.random.random() < 0.95
            tokens[row, 0] = self.choose(one, allowed) if allowed else self.stops[0]
        self.slots.advance(*(one.to(self.device) for one in (index, tokens, num_sampled)))
        for row, one in enumerate(followers):
            if num_sampled[row]:
                self.advance(one, int(tokens[row, 0]))

    def compare(self, one: Follower, logits: torch.Tensor) -> list[int]:
        allowed = self.mask_tokens(one.matcher)
        here: list[int] = torch.isfinite(logits).nonzero().flatten().tolist()
        if one.dropped:
            assert set(here) <= set(allowed) | set(self.stops)
        else:
            assert here == allowed, (one.matcher.state, one.matcher.budget_after_next())
        repeats = one.matcher.repeats
        self.counts += Counter(
            masks=not one.dropped,
            several=len(one.matcher.state) > 1,
            forced=len(allowed) == 1,
            early=one.matcher.num_early > 0 and bool(allowed) and set(allowed) <= set(self.stops),
            bound=self.states.is_bound_by(one.matcher.budget_after_next()),
            added=any(reading >= 0 and reading & NODE >= self.states.words.num_nodes for reading in one.matcher.state),
            in_word=self.states.is_in_word(one.matcher.state),
            all_repeat=repeats is not None and len(allowed) > 0 and set(allowed) <= set(repeats.next_tokens()),
        )
        return here

    def choose(self, one: Follower, allowed: list[int]) -> int:
        # Short circles, so that runs would repeat.
        repeats = one.matcher.repeats
        latest = set() if repeats is None else set(repeats.tokens[-6:])
        again = [token for token in allowed if token in latest]
        return self.random.choice(again if again and self.random.random() < 0.7 else allowed)

    def advance(self, one: Follower, token: int) -> None:
        """Advance the matcher as the device was, and begin another text in the slot of one that ended."""
        has_room = one.matcher.budget_after_next() != 0 and (
            one.matcher.repeats is None or len(one.matcher.repeats.tokens) < 250
        )
        before = one.matcher.state
        if not one.matcher.accept_token(token) or one.matcher.is_terminated or not has_room:
            # A step that is under way masks it once more.
            assert one.dropped or not one.matcher.is_terminated or self.readings(one.slot) == before
            self.counts["ended"] += 1
            if self.random.random() < 0.5:
                self.slots.remove(one.slot)
            begun = self.begin(one.slot)
            one.matcher, one.dropped = begun.matcher, False
            return
        one.dropped |= len(one.matcher.state) > MAX_READINGS
        if not one.dropped:
            assert self.readings(one.slot) == one.matcher.state
        self.counts["dropped"] += one.dropped

    def readings(self, slot: int) -> State:
        columns = self.slots._columns[slot].tolist()
        return tuple(columns[len(SLOT) :][: columns[SLOT.index("num_readings")]])
