"""The free model as the judge of texts: how likely it finds each, as an answer to the user's message alone.

transformers in float32, without a mask, without a hint, and not the engine that made the texts. A text is tokenised
anew, so that two texts with the same letters get the same figure.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from benchmarks.prose.records import Record, Records

_LN_2: Final = math.log(2)


class FreeModel:
    """A model with its tokenizer; loaded at the first use.

    Args:
        path: Its folder or Hugging Face id. Needs a chat template.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._path)

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(self._path, dtype=torch.float32).eval()

    @cached_property
    def end_tokens(self) -> list[int]:
        """The tokens that end an answer."""
        ids = self.model.generation_config.eos_token_id
        return list(ids) if isinstance(ids, list) else [int(self.tokenizer.eos_token_id if ids is None else ids)]

    @property
    def num_tokens(self) -> int:
        """Logits of a place."""
        return int(self.model.config.get_text_config().vocab_size)

    def prompt_tokens(self, prompt: str) -> list[int]:
        """The chat prompt of the user's message."""
        messages = [{"role": "user", "content": prompt}]
        made = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        return [int(token) for token in made["input_ids"]]

    def bits(self, prompt: str, text: str, *, is_ended: bool) -> float:
        """-log2 of the text's probability as an answer; with that of its end where it ended by itself."""
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        log_p = self._log_p(self.prompt_tokens(prompt), tokens)
        parts = [float(log_p[place, token]) for place, token in enumerate(tokens)]
        if is_ended:
            parts.append(float(log_p[len(tokens), self.end_tokens].logsumexp(0)))
        return -math.fsum(parts) / _LN_2

    def log_masses(
        self, prompt: Sequence[int], tokens: Sequence[int], allowed: Callable[[tuple[int, ...]], list[int]]
    ) -> list[float]:
        """log of the probability of all tokens that might have come, at each token of an answer."""
        log_p = self._log_p(prompt, tokens)
        return [float(log_p[place, allowed(tuple(tokens[:place]))].logsumexp(0)) for place in range(len(tokens))]

    def _log_p(self, prompt: Sequence[int], tokens: Sequence[int]) -> Any:
        """log p of every token, float32 (len(tokens) + 1, vocabulary), at each place of the answer and after it."""
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([[*prompt, *tokens]]), logits_to_keep=len(tokens) + 1).logits[0]
            return logits.float().log_softmax(-1)


def score_answers(model: FreeModel, name: str, records: Records, kind: str = "bits") -> int:
    """Adds the bits of every answer that has none yet; how many. ``name`` is the model's in the records.

    ``kind`` is ``judge`` where another model says them.
    """
    known = {bits_key(record) for record in records.of(kind)}
    num_scored = 0
    for answer in records.of("answer"):
        key = bits_key(answer)
        if answer["model"] != name or key in known:
            continue
        known.add(key)
        prompt, text, is_ended = answer["prompt"], answer["text"], answer["is_ended"]
        bits = model.bits(prompt, text, is_ended=is_ended)
        records.add({"kind": kind, "model": name, "prompt": prompt, "text": text, "is_ended": is_ended, "bits": bits})
        num_scored += 1
    return num_scored


def bits_key(record: Record) -> tuple[str, str, str, bool]:
    """What the bits of an answer depend on."""
    return record["model"], record["prompt"], record["text"], record["is_ended"]
