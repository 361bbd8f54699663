"""The card of an adapter: what it was trained from and for, as JSON that the service reads and as a page for people."""

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from vocab.lists.wordlists import load_word_list
from wordbound.train.config import TrainConfig
from wordbound.train.writing import write_text

CARD: Final = "wordbound.json"
_VERSIONS: Final = ("wordbound", "torch", "transformers", "peft", "ray")


def write_card(config: TrainConfig, adapter: Path, report: Mapping[str, Any]) -> None:
    """Write ``wordbound.json`` and ``README.md`` into an adapter's folder."""
    words = load_word_list(config.lang, None).words
    base = Path(config.model)
    card = {
        "format": 1,
        "name": config.adapter_name,
        "base_model": base.name if base.is_dir() else config.model,
        "languages": [config.lang],
        "min_words": min(config.word_counts),
        "max_words": max(config.word_counts),
        "list_digest": hashlib.sha256("\n".join(words).encode()).hexdigest(),
        "teacher": config.teacher if config.texts is None else None,
        "licence": config.licence or None,
        "settings": json.loads(
            config.model_dump_json(include={"training", "filters", "seed", "max_tokens", "word_counts", "rounds"})
        ),
        "report": dict(report),
        "versions": {package: metadata.version(package) for package in _VERSIONS},
    }
    write_text(adapter / CARD, json.dumps(card, indent=2, ensure_ascii=False))
    write_text(adapter / "README.md", _page(card))


def _page(card: Mapping[str, Any]) -> str:
    report = card["report"]
    first, best = report["evaluations"][0], min(report["evaluations"], key=lambda one: one["held_out_loss"])
    origin = f"written by the model ({json.dumps(card['teacher'])})" if card["teacher"] else "given"
    return f"""---
base_model: {card["base_model"]}
library_name: peft
license: {card["licence"] or "see the base model"}
language: {json.dumps(card["languages"])}
---
# {card["name"]}

A LoRA adapter for {card["base_model"]}, trained by `wordbound train` to write within the {card["min_words"]:,} to
{card["max_words"]:,} most frequent words of a list ({", ".join(card["languages"])}).

- Texts: {report["num_texts"]} of {report["num_written"]} {origin}.
- Held-out loss, nats a token: {first["held_out_loss"]:.3f} before, {best["held_out_loss"]:.3f} after.
- The word list is wordfreq's, under CC BY-SA 4.0, with changes; its SHA-256 is {card["list_digest"]}.

`wordbound.json` has all settings and figures.
"""
