"""The system that people have today: transformers' own ``generate``, held to the list by ``prefix_allowed_tokens_fn``.

What may come is asked of our automaton, so both systems have one definition of text, and the budget ends a text at a
whole word in both. In float32, one prompt at a time, without a hint.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.prose.free_model import FreeModel
from benchmarks.prose.records import Cell, Record, Records
from benchmarks.prose.served import missing
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.frame import Frame, frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.decoding.select import words_of
from vocab.lists.wordlists import load_word_list
from vocab.matching.states import ListStates
from vocab.matching.text_states import State
from vocab.options import DEFAULT_OPTIONS


def measure_generated(
    model: FreeModel, listed: tuple[CompiledList, Frame], records: Records, run: str, cell: Cell, prompts: Sequence[str]
) -> int:
    """Makes the texts of a cell that are not known yet, each alone; how many."""
    states = ListStates(*listed, cell.n_words or 1)
    indices = missing(records, "answer", cell, prompts)
    for index in indices:
        started = time.monotonic()
        answer = generate(model, states, prompts[index], cell, seed=index + 1)
        times = {"started": started, "ended": time.monotonic()}
        for kind in ("answer", "alone"):
            records.add(
                {"kind": kind, "run": run, **cell.key, "prompt": prompts[index], "number": index, **answer, **times}
            )
    return len(indices)


def list_and_frame(model_path: str, lang: str, n_words: int | None = None) -> tuple[CompiledList, Frame]:
    """Those of the language's own list, as the service has them; with ``n_words`` of its first words, in less time."""
    speller = load_speller(model_path)
    whole = load_word_list(lang, None)
    words = build_words(whole.up_to(n_words or whole.num_ranks), speller, has_capitals=whole.has_capitals)
    return words, frame_for(words, None, DEFAULT_OPTIONS, FrameTokens.of(speller.facts))


def generate(model: FreeModel, states: ListStates, prompt: str, cell: Cell, seed: int) -> Record:
    """One text, and what it cost."""
    import torch

    prompt_tokens = model.prompt_tokens(prompt)
    allowed = AllowedTokens(states, model.end_tokens, len(prompt_tokens), cell.num_tokens, model.num_tokens)
    torch.manual_seed(seed)
    with torch.inference_mode():
        output = model.model.generate(
            torch.tensor([prompt_tokens]),
            max_new_tokens=cell.num_tokens,
            prefix_allowed_tokens_fn=allowed,
            pad_token_id=model.end_tokens[0],
            **cell.method.fields,
        )
    tokens = output[0, len(prompt_tokens) :].tolist()
    end = next((place for place, token in enumerate(tokens) if token in model.end_tokens), None)
    text_tokens = tokens[:end]
    with_end = tokens if end is None else tokens[: end + 1]
    text = model.tokenizer.decode(text_tokens, skip_special_tokens=True)
    num_generated = allowed.num_calls
    log_mass = -sum(model.log_masses(prompt_tokens, with_end, allowed.after))
    num_words = max(len(words_of(text)), 1)
    return {
        "text": text,
        "is_ended": end is not None,
        "num_answer_tokens": len(with_end),
        "num_generated_tokens": num_generated,
        "vocab": {"log_mass_per_word": log_mass / num_words, "num_words": num_words},
    }


class AllowedTokens:
    """What ``generate`` asks: the tokens that may come after a prompt and a part of a text."""

    def __init__(
        self, states: ListStates, end_tokens: Sequence[int], num_prompt_tokens: int, max_tokens: int, num_tokens: int
    ) -> None:
        self._states = states
        self._end_tokens = list(end_tokens)
        self._stops = np.asarray(sorted(end_tokens), dtype=np.int32)
        self._num_prompt_tokens = num_prompt_tokens
        self._max_tokens = max_tokens
        self._row = np.zeros((num_tokens + 31) // 32, dtype=np.int32)
        self._known: dict[tuple[int, ...], State] = {(): states.start}
        self.num_calls = 0

    def __call__(self, _batch: int, tokens: Any) -> list[int]:
        """Once for each beam and step, so as often as a token is generated."""
        self.num_calls += 1
        return self.after(tuple(tokens[self._num_prompt_tokens :].tolist()))

    def after(self, text: tuple[int, ...]) -> list[int]:
        """The tokens that may come after these; the end token alone after a text that it ended."""
        if text and text[-1] in self._end_tokens:
            return self._end_tokens[:1]
        self._states.fill(self._row, self._state(text), self._budget(len(text)), self._stops)
        allowed = np.flatnonzero(np.unpackbits(self._row.view(np.uint8), bitorder="little"))
        return [int(token) for token in allowed]

    def _state(self, text: tuple[int, ...]) -> State:
        if text not in self._known:
            self._known[text] = self._states.target(self._state(text[:-1]), text[-1], self._budget(len(text) - 1))
        return self._known[text]

    def _budget(self, num_tokens: int) -> int:
        """How many tokens may still come after the next."""
        return max(self._max_tokens - num_tokens - 1, 0)
