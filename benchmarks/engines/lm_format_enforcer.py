"""lm-format-enforcer, called as vLLM's backend calls it: its token enforcer with a regular expression and bitmasks.

Its own integrations cannot be imported with transformers 5, so what they tell it of a tokenizer is repeated here.
"""

import time
from typing import Any

import torch
from lmformatenforcer import RegexParser, TokenEnforcer, TokenEnforcerTokenizerData

from benchmarks.engines import Compiled, Definition, Follower, Form, ModelTokenizer


class LmFormatEnforcer:
    """A token enforcer, shared by all texts: it keeps what it found for each state of the expression."""

    reads: Form = "regex"

    def __init__(self, name: str, tokenizer: ModelTokenizer) -> None:
        del name
        num_tokens = len(tokenizer.facts)
        self._data = TokenEnforcerTokenizerData(
            _regular_tokens(tokenizer.hugging_face, num_tokens),
            lambda tokens: tokenizer.hugging_face.decode(tokens).rstrip("�"),
            tokenizer.stop_token,
            True,
            num_tokens,
        )
        self._bitmask = torch.zeros((1, tokenizer.num_row_words), dtype=torch.int32)
        self.row = self._bitmask[0].numpy()
        self.note = "RegexParser; TokenEnforcer.get_allowed_tokens as a bitmask, copied into the row"

    def compile(self, definition: Definition) -> Compiled:
        regex = definition.regex
        started = time.perf_counter()
        self._enforcer = TokenEnforcer(self._data, RegexParser(regex))
        return Compiled(time.perf_counter() - started)

    def follow(self) -> Follower:
        tokens: list[int] = []
        enforcer, bitmask = self._enforcer, self._bitmask

        def fill() -> None:
            bitmask[0] = enforcer.get_allowed_tokens(tokens).allowed_tokens

        def accept(token: int) -> bool:
            is_allowed = bool(enforcer.get_allowed_tokens(tokens).is_token_allowed(token))
            tokens.append(token)
            return is_allowed

        return Follower(fill, accept)


def _regular_tokens(tokenizer: Any, num_tokens: int) -> list[tuple[int, str, bool]]:
    """(token, text, whether it begins a word), as ``lmformatenforcer.integrations.transformers`` finds them."""
    special, zero = set(tokenizer.all_special_ids), tokenizer.encode("0")[-1]
    found = []
    for token in range(num_tokens):
        if token not in special:
            behind_zero, alone = tokenizer.decode([zero, token])[1:], tokenizer.decode([token])
            found.append((token, behind_zero, len(behind_zero) > len(alone)))
    return found


engine = LmFormatEnforcer
