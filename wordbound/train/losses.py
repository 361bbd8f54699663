"""Texts as examples of tokens, the loss of a model on them, and how likely they are to the base model."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from wordbound.lm.word_list import WordList
from wordbound.train.filters import Text
from wordbound.train.writing import write_text

_IGNORED: Final = -100
"""The label that torch's cross entropy leaves out."""


class Example(NamedTuple):
    """A text as the model sees it, in token ids: the chat prompt, and the answer with or without its end. ``lang`` and
    ``n_words`` are its list; None for a free text."""

    prompt: list[int]
    answer: list[int]
    lang: str | None = None
    n_words: int | None = None


class Losses(NamedTuple):
    """Sums over the answers' tokens, nats: the cross entropy, -log of the probability that the masks leave, and the
    number of the tokens."""

    cross_entropy: Any
    log_mass: Any
    num_tokens: int


class Masks:
    """The masks of the examples' lists, each compiled on first use."""

    def __init__(self, tokenizer: Any) -> None:
        self._word_list = lru_cache(None)(partial(WordList, model=tokenizer))

    def forbidden(self, examples: Sequence[Example], vocab_size: int) -> Any:
        """Return bool (answers' tokens, vocab_size): the tokens that the list of each example forbids at each place.

        From a token on that the list spells otherwise, nothing is forbidden.
        """
        import torch

        rows = []
        for example in examples:
            row = torch.zeros((len(example.answer), vocab_size), dtype=torch.bool)
            rows.append(row)
            if example.lang is None or example.n_words is None:
                continue
            words = self._word_list(example.lang, example.n_words)
            state = words.start
            for place, token in enumerate(example.answer):
                mask = words.mask(state)
                if not mask[token]:
                    break
                row[place] = True
                row[place, : len(mask)] = ~mask
                state = words.next(state, token)
        return torch.cat(rows)


def encode_examples(tokenizer: Any, texts: Sequence[dict[str, Any]]) -> list[Example]:
    """Tokenize texts (``messages``, ``text``, ``has_end`` and, of a list, ``lang``, ``n_words``) into examples.

    ``has_end`` is whether the model shall learn that the text ends here; one that ran into its budget does not.
    """
    examples = []
    for text in texts:
        made = tokenizer.apply_chat_template(text["messages"], add_generation_prompt=True, return_dict=True)
        answer = tokenizer(text["text"], add_special_tokens=False)["input_ids"]
        end = [tokenizer.eos_token_id] if text["has_end"] else []
        examples.append(Example(list(made["input_ids"]), [*answer, *end], text.get("lang"), text.get("n_words")))
    return examples


def split_held_out(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Split examples at random into those to train on and those held out, at least one each where there are two."""
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, not a secret
    num_held_out = max(round(len(shuffled) * share), 1)
    return shuffled[num_held_out:], shuffled[:num_held_out]


def collate(examples: Sequence[Example], padding: int) -> tuple[dict[str, Any], Any]:
    """Pad examples on the left into one batch: the model's arguments, int64 (examples, length), and labels.

    Labels are those of the last tokens, int64 (examples, longest answer).
    """
    import torch

    length = max(len(example.prompt) + len(example.answer) for example in examples)
    longest = max(len(example.answer) for example in examples)
    input_ids = torch.full((len(examples), length), padding)
    attention_mask = torch.zeros((len(examples), length), dtype=torch.long)
    labels = torch.full((len(examples), longest), _IGNORED)
    for row, (prompt, answer, *_) in enumerate(examples):
        tokens = torch.tensor([*prompt, *answer])
        input_ids[row, -len(tokens) :] = tokens
        attention_mask[row, -len(tokens) :] = 1
        labels[row, -len(answer) :] = tokens[-len(answer) :]
    position_ids = (attention_mask.cumsum(1) - 1).clamp(min=0)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}, labels


def loss_sums(model: Any, examples: Sequence[Example], padding: int, masks: Masks | None = None) -> Losses:
    """Compute the losses of examples, in one forward pass; those of the masks are 0 without ``masks``."""
    import torch

    batch, labels = collate(examples, padding)
    # The logits of a place are those of the next token; of prompts they are not computed.
    logits = model(**batch, logits_to_keep=labels.shape[1] + 1, use_cache=False).logits[:, :-1]
    labels = labels.to(logits.device)
    is_labelled = labels != _IGNORED
    rows, targets = logits[is_labelled].float(), labels[is_labelled]
    log_total = rows.logsumexp(-1)
    cross_entropy = (log_total - rows.gather(1, targets[:, None])[:, 0]).sum()
    log_mass = torch.zeros((), device=rows.device)
    if masks is not None:
        forbidden = masks.forbidden(examples, rows.shape[1]).to(rows.device)
        log_mass = (log_total - rows.masked_fill(forbidden, -torch.inf).logsumexp(-1)).sum()
    return Losses(cross_entropy, log_mass, len(targets))


SCORES: Final = "bits.json"


def score_texts(model: str, tokenizer: Any, texts: Sequence[Text], folder: Path) -> list[Text]:
    """Return the texts with their bits a character under a model, given their prompts alone.

    The scores stay in ``folder/bits.json``, and are read from there by the next run.
    """
    path = folder / SCORES
    if not path.exists():
        import ray
        import torch

        # In a process of its own, whose end frees the GPU.
        task = ray.remote(num_gpus=float(torch.cuda.is_available()))(_bits_per_char)
        write_text(path, json.dumps(ray.get(task.remote(model, tokenizer, list(texts)))))
    bits = json.loads(path.read_text(encoding="utf-8"))
    return [replace(text, bits_per_char=one) for text, one in zip(texts, bits, strict=True)]


def _bits_per_char(model: str, tokenizer: Any, texts: Sequence[Text]) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).to(device).eval()
    asked = [
        {"messages": [{"role": "user", "content": text.prompt}], "text": text.text, "has_end": text.has_end}
        for text in texts
    ]
    bits = []
    with torch.inference_mode():
        for text, example in zip(texts, encode_examples(tokenizer, asked), strict=True):
            losses = loss_sums(loaded, [example], padding=0)
            bits.append(float(losses.cross_entropy) / math.log(2) / max(len(text.text), 1))
    return bits
