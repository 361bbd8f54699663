"""Tiny models with random weights, and texts of them that a search can walk on: torch and our automaton, no engine."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tests.vocab.toys import STOP, tokens_of
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.generator import Expansion, Place
from vocab.matching.states import ListStates
from vocab.matching.text_states import State

PROMPT: Final = (5, 17, 3)


@cache
def tiny_model(kind: str, num_tokens: int, seed: int, spread: float = 0.35) -> Any:
    """A model whose weights are spread widely enough to have opinions."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": num_tokens, "initializer_range": spread, "bos_token_id": None, "eos_token_id": STOP}
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(n_positions=128, n_embd=24, n_layer=2, n_head=2, **sizes)).eval()
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, pad_token_id=STOP, **sizes
        )
    ).eval()


def log_p_of(model: Any) -> Callable[[tuple[int, ...]], torch.Tensor]:
    """log p after the prompt and some tokens, float32 (tokens,), computed from the whole text each time."""

    def log_p(tokens: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            logits = model(torch.tensor([[*PROMPT, *tokens]])).logits[0, -1]
        return torch.log_softmax(logits.float(), dim=-1)

    return log_p


class ListTexts:
    """The texts of a model that a list allows.

    Args:
        log_p: The model: of the tokens of a text, (tokens,), log p of each next token.
        num_tokens: How many it has.
        states: What may be written; None for anything.
        spell: Makes text of tokens, without those that end it.
        end_tokens: The tokens that end a text.
    """

    def __init__(
        self,
        log_p: Callable[[tuple[int, ...]], torch.Tensor],
        num_tokens: int,
        states: ListStates | None,
        spell: Callable[[tuple[int, ...]], str],
        end_tokens: Iterable[int] = (STOP,),
    ) -> None:
        self.log_p, self._num_tokens, self._states, self._spell = log_p, num_tokens, states, spell
        self.end_tokens = frozenset(end_tokens)
        self.start = Place((), states.start if states else None)

    def expansion(self, place: Place, num_tokens: int, budget: int) -> Expansion:
        log_p, allowed = self.log_p(place.tokens), self.allowed(place.state, budget)
        best = allowed[torch.argsort(log_p[allowed], descending=True)][:num_tokens]
        return Expansion(
            tuple(best.tolist()), tuple(log_p[best].tolist()), None, float(torch.logsumexp(log_p[allowed], 0))
        )

    def allowed(self, state: State | None, budget: int) -> torch.Tensor:
        """The tokens that may come in a state, ascending; all where there is none."""
        if self._states is None or state is None:
            return torch.arange(self._num_tokens)
        row = np.zeros((self._num_tokens + 31) // 32, dtype=np.int32)
        self._states.fill(row, state, budget - 1, np.asarray(sorted(self.end_tokens), dtype=np.int32))
        return torch.tensor(sorted(tokens_of(row)))

    def follow(self, place: Place, token: int, budget: int, source: str | None) -> Place:
        state = place.state
        if self._states is not None and state is not None and token not in self.end_tokens:
            state = self._states.target(state, token, budget - 1)
            assert state, "a token that may not come"
        return Place((*place.tokens, token), state, source)

    def text(self, tokens: tuple[int, ...]) -> str:
        return self._spell(tuple(token for token in tokens if token not in self.end_tokens))


def spelling_of(tokenizer: TokenizerFacts) -> Callable[[tuple[int, ...]], str]:
    return lambda tokens: b"".join(tokenizer.token_bytes[token] for token in tokens).decode(errors="replace")
