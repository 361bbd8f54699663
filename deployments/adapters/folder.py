"""An adapter as a folder in peft's format: its configuration, its tensors, and the card that training wrote.

Everything is checked before the engine gets it, so that an adapter is loaded whole or not at all.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from huggingface_hub import snapshot_download
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open

from vocab.lists.wordlists import language_of

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
CARD: Final = "wordbound.json"

RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's ``max_lora_rank`` may be; it also takes 1."""

Shape: TypeAlias = tuple[int, ...]

_TENSOR: Final = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")

_UNREAD: Final = ("alpha_pattern", "layer_replication", "modules_to_save", "rank_pattern", "use_dora")
"""Parts of peft's configuration that vLLM refuses, or drops without a word."""

_MERGE: Final = "merge it into the model (lora_merge: true), or train without"


class AdapterError(Exception):
    """An adapter cannot be served. The message is one sentence that names it and what is wrong."""


class Card(BaseModel):
    """For which lists an adapter was trained; no bound and no language for any."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[1]
    base_model: str | None = None
    languages: tuple[str, ...] = ()
    min_words: int = Field(default=1, ge=1)
    max_words: int | None = Field(default=None, ge=1)

    def fits(self, lang: str | None, n_words: int) -> bool:
        """Return whether the adapter was trained for a list of this name and length."""
        has_language = lang is not None and language_of(lang) in map(language_of, self.languages)
        return has_language and self.min_words <= n_words and (self.max_words is None or n_words <= self.max_words)

    @property
    def num_lengths(self) -> float:
        """How many lengths of lists it fits."""
        return float("inf") if self.max_words is None else self.max_words - self.min_words + 1


@dataclass(frozen=True)
class Adapter:
    """An adapter that can be read.

    Attributes:
        folder: Where its files lie on this node.
        digest: Of its configuration and tensors.
        config: peft's.
        shapes: Of its tensors by module of the model, (rank, in) of A and (out, rank) of B.
        others: Tensors that are neither A nor B of a linear layer.
        card: None where it has none.
    """

    name: str
    folder: Path
    digest: str
    config: Mapping[str, Any]
    shapes: Mapping[str, Mapping[str, Shape]]
    others: tuple[str, ...]
    card: Card | None

    @property
    def rank(self) -> int:
        return max((parts["A"][0] for parts in self.shapes.values() if "A" in parts), default=0)

    @classmethod
    def read(cls, name: str, source: str) -> Self:
        """Read an adapter from a folder, or by its id from Hugging Face.

        Raises:
            AdapterError: There is none, or it cannot be read.
        """
        folder = _folder(name, source)
        for file in (CONFIG, WEIGHTS):
            if not (folder / file).is_file():
                raise AdapterError(f"lora.{name}: {folder} has no {file}: expected a folder that peft saved")
        config = _read_json(name, folder / CONFIG)
        if config.get("peft_type") != "LORA":
            raise AdapterError(f"lora.{name}: {CONFIG} has peft_type {config.get('peft_type')!r}, expected 'LORA'")
        shapes, others = _tensors(name, folder / WEIGHTS)
        digest = hashlib.sha256((folder / CONFIG).read_bytes())
        with (folder / WEIGHTS).open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
        return cls(name, folder, digest.hexdigest(), config, shapes, others, _card(name, folder / CARD))

    def check(self, model: str, modules: Mapping[str, Shape], max_rank: int | None = None) -> None:
        """Check that the adapter is one of a model.

        Args:
            model: The name of the model, or its folder.
            modules: The shape of each of its modules that has a weight.
            max_rank: The engine's; None where the adapter is to be merged, which everything of peft's can be.

        Raises:
            AdapterError: It is not.
        """
        named = None if self.card is None else self.card.base_model
        if named is not None and _last_part(named) != _last_part(model):
            raise AdapterError(f"lora.{self.name}: it was trained for {named}, and this service has {model}")
        if max_rank is not None:
            self._check_readable(max_rank)
        if missing := sorted(self.shapes.keys() - modules.keys()):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise AdapterError(
                f"lora.{self.name}: it changes {missing[0]}{more}, which {model} does not have: expected an adapter "
                "that was trained for this model"
            )
        for module, parts in self.shapes.items():
            found, size = _size(parts), modules[module]
            # GPT-2's linear layers are (in, out).
            if found not in (size, size[::-1]):
                raise AdapterError(
                    f"lora.{self.name}: {module} is {_as_text(size)} in {model} and {_as_text(found)} in the adapter: "
                    "expected an adapter that was trained for this model"
                )

    def _check_readable(self, max_rank: int) -> None:
        """Check that the engine can apply the whole adapter."""
        if self.rank > max_rank:
            raise AdapterError(
                f"lora.{self.name}: its rank is {self.rank} and the engine's max_lora_rank {max_rank}: raise "
                "engine_kwargs.max_lora_rank, or train with a smaller rank"
            )
        unread = [name for name in _UNREAD if self.config.get(name)]
        if self.config.get("bias", "none") != "none":
            unread.append("bias")
        if unread:
            raise AdapterError(f"lora.{self.name}: the engine applies no {' or '.join(unread)}: {_MERGE}")
        if heads := [module for module in self.shapes if module.endswith("lm_head")]:
            raise AdapterError(f"lora.{self.name}: the engine applies nothing to {heads[0]}: {_MERGE} it")
        if self.others:
            raise AdapterError(f"lora.{self.name}: the engine does not apply the tensor {self.others[0]}: {_MERGE}")


def choose(cards: Mapping[str, Card | None], lang: str | None, n_words: int) -> str | None:
    """Return the adapter that was trained most narrowly for a list, the first by name of several; None for none."""
    fitting = [
        (card.num_lengths, name) for name, card in cards.items() if card is not None and card.fits(lang, n_words)
    ]
    return min(fitting)[1] if fitting else None


def smallest_rank(adapters: Collection[Adapter]) -> int:
    """Return the smallest ``max_lora_rank`` of vLLM's that fits the adapters, and its own default where there are none.

    Raises:
        AdapterError: One has a larger rank than vLLM takes.
    """
    if not adapters:
        return 16
    largest = max(adapters, key=lambda adapter: adapter.rank)
    if largest.rank > RANKS[-1]:
        raise AdapterError(
            f"lora.{largest.name}: its rank is {largest.rank}, and the engine takes {RANKS[-1]} at most: train with a "
            "smaller rank"
        )
    return next(rank for rank in RANKS if rank >= largest.rank)


def _folder(name: str, source: str) -> Path:
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if source.startswith(("/", "./", "../", "~")):
        raise AdapterError(
            f"lora.{name}: there is no folder {source}: expected one on every node, or a Hugging Face id"
        )
    try:
        return Path(snapshot_download(source, allow_patterns=[CONFIG, WEIGHTS, CARD]))
    except (OSError, ValueError) as error:
        raise AdapterError(
            f"lora.{name}: {source!r} is no folder, and cannot be fetched from Hugging Face ({type(error).__name__})"
        ) from error


def _read_json(name: str, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AdapterError(f"lora.{name}: {path.name} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise AdapterError(f"lora.{name}: {path.name} is no JSON object")
    return content


def _card(name: str, path: Path) -> Card | None:
    if not path.is_file():
        return None
    try:
        return Card.model_validate(_read_json(name, path))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise AdapterError(f"lora.{name}: {CARD} has a bad {where}: {fault['msg']}") from None


def _tensors(name: str, path: Path) -> tuple[dict[str, dict[str, Shape]], tuple[str, ...]]:
    """Return the shapes of A and B by module, and the names of all other tensors. Reads only the file's header."""
    shapes: dict[str, dict[str, Shape]] = {}
    others: list[str] = []
    try:
        with safe_open(path, framework="numpy") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - it is no dict
                match = _TENSOR.fullmatch(key)
                if match is None:
                    others.append(key)
                else:
                    shapes.setdefault(match[1], {})[match[2]] = tuple(tensors.get_slice(key).get_shape())
    except (OSError, SafetensorError) as error:
        raise AdapterError(f"lora.{name}: {path.name} cannot be read ({error})") from error
    for module, parts in shapes.items():
        if parts.keys() != {"A", "B"} or parts["A"][0] != parts["B"][-1]:
            raise AdapterError(f"lora.{name}: {path.name} has no matching pair of lora_A and lora_B for {module}")
    if not shapes and not others:
        raise AdapterError(f"lora.{name}: {path.name} is empty")
    return shapes, tuple(others)


def _size(parts: Mapping[str, Shape]) -> Shape:
    """Return the shape (out, in) of the weight that A and B make together."""
    return parts["B"][0], parts["A"][-1]


def _as_text(shape: Shape) -> str:
    return " × ".join(map(str, shape))


def _last_part(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1].lower()
