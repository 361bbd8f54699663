"""The free model as the judge of texts: how likely it finds each, as an answer to the user's message alone.

transformers in float32, without a mask, without a hint, and not the engine that made the texts. A text is tokenised
anew, so that two texts with the same letters get the same figure.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

from benchmarks.prose.records import Record, Records

_LN_2: Final = math.log(2)

BATCH: Final = 8
"""Texts that are scored at once: 8 of 60 tokens and 150,000 tokens of vocabulary have 150 MB of logits in bfloat16."""


class FreeModel:
    """A model with its tokenizer; loaded at the first use.

    Args:
        path: Its folder or Hugging Face id. Needs a chat template.
        dtype: Of its weights, by torch's name.
        adapter: Folder of an adapter to merge into them.
    """

    def __init__(self, path: str, dtype: str = "float32", adapter: str | None = None) -> None:
        self._path = path
        self._dtype = dtype
        self._adapter = adapter

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._path)

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(self._path, dtype=getattr(torch, self._dtype))
        if self._adapter is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, self._adapter).merge_and_unload()
        return model.eval()

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
        return self._bits_of(self._log_p(self.prompt_tokens(prompt), tokens), tokens, is_ended)

    def bits_of_many(self, prompt: str, answers: Sequence[tuple[str, bool]]) -> list[float]:
        """Return ``bits`` of several (text, is_ended) of one prompt, which is read once; texts of like length in a
        batch."""
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
                    log_p = torch.cat([read.logits[0], row[: len(texts[place])]]).float().log_softmax(-1)
                    bits[place] = self._bits_of(log_p, texts[place], answers[place][1])
        return bits

    def log_odds(self, prompt: str, beginning: str, choices: tuple[str, str]) -> float:
        """log p of the first choice less that of the second, one token each, where an answer to the prompt begins so.

        The two logits are computed in float32, since bfloat16 has steps of an eighth where they are.

        Raises:
            ValueError: A choice is not one token.
        """
        import torch

        beginning_tokens, *tokens = (
            self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (beginning, *choices)
        )
        if any(len(choice) != 1 for choice in tokens):
            raise ValueError(f"the judge's tokenizer has no single token for each of {choices}")
        with torch.inference_mode():
            read = torch.tensor([[*self.prompt_tokens(prompt), *beginning_tokens]])
            state = self.model.base_model(read).last_hidden_state[0, -1].float()
            first, second = (self.model.get_output_embeddings().weight[token].float() for (token,) in tokens)
            return float(state @ (first - second))

    def log_masses(
        self, prompt: Sequence[int], tokens: Sequence[int], allowed: Callable[[tuple[int, ...]], list[int]]
    ) -> list[float]:
        """log of the probability of all tokens that might have come, at each token of an answer."""
        log_p = self._log_p(prompt, tokens)
        return [float(log_p[place, allowed(tuple(tokens[:place]))].logsumexp(0)) for place in range(len(tokens))]

    def _bits_of(self, log_p: Any, tokens: Sequence[int], is_ended: bool) -> float:
        """The bits of a text with this log p of every token at its places and after it."""
        parts = [float(log_p[place, token]) for place, token in enumerate(tokens)]
        if is_ended:
            parts.append(float(log_p[len(tokens), self.end_tokens].logsumexp(0)))
        return -math.fsum(parts) / _LN_2

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


def score_batched(model: FreeModel, scorer: str, answers: Iterable[Record], records: Records) -> int:
    """Adds the bits under ``model`` of those answers, of any writer, that have none yet; how many.

    ``scorer`` is the model's name in the records.
    """
    known = {bits_key(record) for record in records.of("bits") if record["scorer"] == scorer}
    by_prompt: dict[str, dict[tuple[str, str, str, bool], Record]] = defaultdict(dict)
    for answer in answers:
        if bits_key(answer) not in known:
            by_prompt[answer["prompt"]][bits_key(answer)] = answer
    for prompt, to_score in by_prompt.items():
        scored = list(to_score.values())
        for answer, bits in zip(
            scored, model.bits_of_many(prompt, [(a["text"], a["is_ended"]) for a in scored]), strict=True
        ):
            fields = ("model", "prompt", "text", "is_ended")
            records.add({"kind": "bits", "scorer": scorer, **{f: answer[f] for f in fields}, "bits": bits})
    return sum(map(len, by_prompt.values()))


def bits_key(record: Record) -> tuple[str, str, str, bool]:
    """What the bits of an answer depend on."""
    return record["model"], record["prompt"], record["text"], record["is_ended"]
