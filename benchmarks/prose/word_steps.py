"""The tokens of answers by their words, asked of a running service, and the prefix traps among them.

A prefix trap is a word that the model began as it meant (" B" of "Brot") and that the list made another one ("Bahn").
Answers of searches have no token details, so every text is scored afterwards, in one pass after its own prompt. What a
list allows has at least the probability of the token that came; only where that is little is the row of all tokens
asked for, and the list's own mask laid on it. Rules of repetition and budgets are left out of that mask.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from benchmarks.prose.records import Cell, Record
from vocab.automaton.tokenizer import load_speller
from vocab.lists.wordlists import load_word_list
from vocab.marks import APOSTROPHES
from vocab.matching.list_kinds import PlainStates, states_of
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.options import DEFAULT_OPTIONS
from vocab.text.changes import ListChanges
from vocab.text.forms import case_of
from wordbound import Client

LITTLE: Final = 0.05
"""Of the model's probability: where the list allows less inside a word, the word is a trap."""

MOST: Final = 0.5
"""Of it: a forbidden token of letters that has more shows that the word before was cut off."""

ROWS_AT_ONCE: Final = 32
"""With 262,144 tokens half of what a service returns at once by default."""

Part = Literal["begins", "continues", ""]


class Step(NamedTuple):
    """One token of an answer.

    Attributes:
        text: Of the token.
        log_p: The model's own, before any mask; nats.
        part: Whether it begins a word, or continues the one before.
        mass: What the list allowed in its place, of 1; None where nobody asked, for ``log_p`` is not little.
        wanted: A token of letters that had ``MOST`` of the probability there, and that the list did not allow.
    """

    text: str
    log_p: float
    part: Part
    mass: float | None = None
    wanted: str = ""


class WordCounts(NamedTuple):
    """The words of a text; those that are prefix traps; others after which the model wanted more letters."""

    num_words: int
    num_traps: int
    num_fragments: int


def count_words(steps: Iterable[Step]) -> WordCounts:
    """Count the words of an answer, and what became of them."""
    traps, fragments = list[bool](), list[bool]()
    in_word = False
    for step in steps:
        if step.part == "continues":
            traps[-1] |= step.mass is not None and step.mass < LITTLE
        elif in_word:
            fragments[-1] = bool(step.wanted) and not traps[-1]
        if step.part == "begins":
            traps.append(False)
            fragments.append(False)
        in_word = step.part != ""
    return WordCounts(len(traps), sum(traps), sum(fragments))


class StepReader:
    """Reads the steps of answers; threads may share it.

    Args:
        client: Of the service.
        tokenizer: The folder of the service's model.
        with_fragments: Whether to find what the model wanted after each word too: some dozen rows a text.

    Raises:
        ValueError: The tokenizer is not the service's.
    """

    def __init__(self, client: Client, tokenizer: str, *, with_fragments: bool = False) -> None:
        table = client.tokens()
        self._client, self._with_fragments = client, with_fragments
        self._spelled = [base64.b64decode(token) for token in table["tokens"]]
        self._stops = np.asarray(sorted(table["eos_token_ids"]), dtype=np.int32)
        self._speller = load_speller(tokenizer)
        # Special tokens have no bytes there.
        if any(own and own != served for own, served in zip(self._speller.facts.token_bytes, self._spelled)):  # noqa: B905
            raise ValueError(f"{tokenizer} has other tokens than {table['model']}: give the folder of the served model")
        self._known: dict[str, Any] = {}

    def steps(self, cell: Cell, answer: Record) -> list[Step]:
        """Return the steps of an answer, up to a token that its list does not allow, if there is one."""
        vocab = {"lang": cell.lang, "n_words": cell.n_words, **cell.method.vocab, "end": "word"}
        # These change no prompt, and not all of them can stand beside token ids.
        vocab = {name: value for name, value in vocab.items() if name not in ("score", "search", "select")}
        vocab["rescue"] = False
        prompt = self._once(self._prompt, answer["prompt"], vocab)
        added = answer["vocab"].get("prompt_words") or ()
        extra_words = [written for one in added for written in (one["word"], *one["forms"])]
        states = self._once(self._states, cell.lang, cell.n_words, extra_words)
        tokens = self._client.post("/tokenize", {"prompt": answer["text"], "add_special_tokens": False})["tokens"]
        writer = answer["vocab"].get("adapter")
        log_p = self._client.token_logprobs(prompt, tokens, model=writer)["logprobs"]
        before, steps = [states.start], list[Step]()
        for token, own in zip(tokens, log_p, strict=True):
            after = states.target(before[-1], token, NO_BUDGET)
            if not after:
                break
            text = self._text(token)
            part: Part = "begins" if states.is_in_word(after) else ""
            # To a list the possessive is a beginning of its own.
            is_possessive = bool(part and steps and steps[-1].part and text.startswith(tuple(APOSTROPHES)))
            if is_possessive or states.continues_word(before[-1], token, after):
                part = "continues"
            steps.append(Step(text, own, part))
            before.append(after)
        places = [place for place in range(len(steps)) if self._is_asked(steps, place)]
        for first in range(0, len(places), ROWS_AT_ONCE):
            few = places[first : first + ROWS_AT_ONCE]
            rows = self._client.logprobs([[*prompt, *tokens[:at]] for at in few], model=writer)
            for place, row in zip(few, rows, strict=True):
                bits = np.zeros(-(-len(row) // 32), dtype=np.int32)
                states.fill(bits, before[place], NO_BUDGET, self._stops)
                allowed = np.unpackbits(bits.view(np.uint8), count=len(row), bitorder="little").view(np.bool_)
                top = int(row.argmax())
                wanted = self._text(top) if row[top] > math.log(MOST) and not allowed[top] else ""
                steps[place] = steps[place]._replace(
                    mass=float(np.exp(row[allowed]).sum()), wanted=wanted if wanted[:1].isalpha() else ""
                )
        return steps

    def _is_asked(self, steps: list[Step], place: int) -> bool:
        if steps[place].part == "continues":
            return steps[place].log_p < math.log(LITTLE)
        is_after_word = place > 0 and steps[place - 1].part != ""
        return self._with_fragments and is_after_word and steps[place].log_p < math.log(MOST)

    def _once(self, make: Callable[..., Any], *arguments: Any) -> Any:
        key = json.dumps(arguments)
        if key not in self._known:
            self._known[key] = make(*arguments)
        return self._known[key]

    def _prompt(self, prompt: str, vocab: dict[str, Any]) -> list[int]:
        """Return the tokens of a prompt as the model had it, with the service's hint."""
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "return_token_ids": True}
        return list(self._client.post("/v1/chat/completions", {**body, "vocab": vocab})["prompt_token_ids"])

    def _states(self, lang: str, n_words: int, extra_words: list[str]) -> PlainStates:
        words = load_word_list(lang, None)
        options = replace(DEFAULT_OPTIONS, case=case_of(DEFAULT_OPTIONS, has_capitals=words.has_capitals))
        return states_of(words, options, self._speller, n_words, ListChanges(tuple(extra_words)))

    def _text(self, token: int) -> str:
        return self._spelled[token].decode(errors="replace")
