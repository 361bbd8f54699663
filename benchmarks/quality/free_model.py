"""The free model as the judge of texts: how likely it finds each, as an answer to the user's message alone.

transformers, without a mask, without a hint, and not the engine that made the texts. A text is tokenised anew, so that
two texts with the same letters get the same figure.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

from benchmarks.quality.records import Record, Records

BATCH: Final = 8
"""Texts that are scored at once: 8 of 60 tokens and 150,000 tokens of vocabulary have 150 MB of logits in bfloat16."""

BitsKey = tuple[str, str, bool]


class FreeModel:
    """A model with its tokenizer; loaded at the first use.

    Args:
        path: Its folder or Hugging Face id. Needs a chat template.
        dtype: Of its weights, by torch's name.
    """

    def __init__(self, path: str, dtype: str = "float32") -> None:
        self._path = path
        self._dtype = dtype

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._path)

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(self._path, dtype=getattr(torch, self._dtype)).eval()

    @cached_property
    def end_tokens(self) -> list[int]:
        """The tokens that end an answer."""
        ids = self.model.generation_config.eos_token_id
        return list(ids) if isinstance(ids, list) else [int(self.tokenizer.eos_token_id if ids is None else ids)]

    def prompt_tokens(self, prompt: str) -> list[int]:
        """The chat prompt of the user's message."""
        messages = [{"role": "user", "content": prompt}]
        made = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        return [int(token) for token in made["input_ids"]]

    def bits(self, prompt: str, answers: Sequence[tuple[str, bool]]) -> list[float]:
        """Return -log2 of the probability of texts as answers to one prompt, which is read once.

        An answer is its text, and whether it ended by itself: then the probability of its end counts too.
        """
        import torch

        texts = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text, _ in answers]
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        bits = [0.0] * len(texts)
        with torch.inference_mode():
            read = self.model(torch.tensor([self.prompt_tokens(prompt)]), use_cache=True, logits_to_keep=1)
            for batch in (order[start : start + BATCH] for start in range(0, len(order), BATCH)):
                # What is after a text changes nothing before it, so the padding needs no mask.
                width = max(1, *(len(texts[place]) for place in batch))
                padded = [texts[place] + [0] * (width - len(texts[place])) for place in batch]
                cache = copy.deepcopy(read.past_key_values)
                cache.batch_repeat_interleave(len(batch))
                logits = self.model(torch.tensor(padded), past_key_values=cache).logits
                for row, place in zip(logits, batch, strict=True):
                    tokens = texts[place]
                    log_p = torch.cat([read.logits[0], row[: len(tokens)]]).float().log_softmax(-1)
                    parts = [float(log_p[step, token]) for step, token in enumerate(tokens)]
                    if answers[place][1]:
                        parts.append(float(log_p[len(tokens), self.end_tokens].logsumexp(0)))
                    bits[place] = -math.fsum(parts) / math.log(2)
        return bits


def score(model: FreeModel, scorer: str, answers: Iterable[Record], records: Records) -> int:
    """Add the bits under ``model`` of those answers that have none yet; return how many. ``scorer`` is its name."""
    known = bits_of(records, scorer)
    by_prompt: dict[str, dict[BitsKey, None]] = defaultdict(dict)
    for answer in answers:
        if (key := bits_key(answer)) not in known:
            by_prompt[answer["prompt"]][key] = None
    for prompt, keys in by_prompt.items():
        to_score = [(text, is_ended) for _, text, is_ended in keys]
        for key, bits in zip(keys, model.bits(prompt, to_score), strict=True):
            records.add({"kind": "bits", "scorer": scorer, "key": list(key), "bits": bits})
    return sum(map(len, by_prompt.values()))


def bits_of(records: Records, scorer: str) -> dict[BitsKey, float]:
    """The bits under a model that are known."""
    return {tuple(one["key"]): one["bits"] for one in records.of("bits") if one["scorer"] == scorer}


def bits_key(answer: Record) -> BitsKey:
    """What the bits of an answer depend on."""
    return answer["prompt"], answer["text"], answer["is_ended"]
