"""LoRA adapters as folders in peft's format: their configuration, their tensors, and the card that training wrote.

Everything is checked before an engine gets it, so that an adapter is loaded whole or not at all.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vocab.lists.tags import RELATIVES
from vocab.lists.wordlists import language_of

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
CARD: Final = "wordbound.json"
FILES: Final = (CONFIG, WEIGHTS, CARD)

RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's ``max_lora_rank`` may be; it also takes 1."""

Shape: TypeAlias = tuple[int, ...]

_TENSOR: Final = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")

_WHOLE: Final = ("modules_to_save",)
"""Parts of peft's configuration that are no LoRA."""

_UNREAD: Final = ("alpha_pattern", "layer_replication", "rank_pattern", "use_dora")
"""Parts of it that vLLM refuses, or drops without a word."""

_EXPONENTS: Final[Mapping[str, tuple[Any, int]]] = {
    "F32": (np.uint32, 0x7F800000),
    "F16": (np.uint16, 0x7C00),
    "BF16": (np.uint16, 0x7F80),
}
"""By dtype: the bits of the exponent, all of which are set in infinity and NaN."""

_WITHOUT: Final = "train one without, or merge it into the model"
_OTHER: Final = "expected an adapter that was trained for this model"


class AdapterError(ValueError):
    """An adapter cannot be used. The message is one sentence that names it and what is wrong."""


class Card(BaseModel):
    """The lists that an adapter was trained for; without a bound any length fits, without languages no list does."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: Literal[1] = 1
    base_model: str | None = None
    languages: tuple[str, ...] = Field(default=(), strict=False)
    min_words: int = Field(default=1, ge=1)
    max_words: int | None = Field(default=None, ge=1)

    def fits(self, lang: str | None, n_words: int) -> bool:
        """Return whether the adapter was trained for a list of this name and length."""
        has_language = lang is not None and _own_list(lang) in map(_own_list, self.languages)
        return has_language and self.min_words <= n_words and (self.max_words is None or n_words <= self.max_words)

    @property
    def num_lengths(self) -> float:
        """Count the list lengths that fit, infinity without a bound; the fewest wins."""
        return float("inf") if self.max_words is None else self.max_words - self.min_words + 1


def _own_list(name: str) -> str:
    language = language_of(name)
    return RELATIVES.get(language, language)


@dataclass(frozen=True)
class Adapter:
    """An adapter that can be read.

    Attributes:
        name: What messages call it.
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
        return max((parts["A"][0] for parts in self.shapes.values()), default=0)

    @classmethod
    def read(cls, name: str, source: str) -> Self:
        """Read an adapter from a folder, or by its id from Hugging Face.

        Raises:
            AdapterError: There is none, or it cannot be read.
        """
        folder = _folder(name, source)
        for file in (CONFIG, WEIGHTS):
            if not (folder / file).is_file():
                raise AdapterError(f"adapter {name}: {folder} has no {file}: expected a folder that peft saved")
        config = _read_json(name, folder / CONFIG)
        if config.get("peft_type") != "LORA":
            raise AdapterError(f"adapter {name}: {CONFIG} has peft_type {config.get('peft_type')!r}, expected 'LORA'")
        shapes, others = _tensors(name, folder / WEIGHTS)
        digest = hashlib.sha256((folder / CONFIG).read_bytes())
        with (folder / WEIGHTS).open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
        return cls(name, folder, digest.hexdigest(), config, shapes, others, _card(name, folder / CARD))

    def check_model(self, modules: Mapping[str, Shape], model: str | None = None) -> None:
        """Refuse an adapter whose modules, shapes or base model are not those of a model.

        Args:
            modules: ``module_shapes`` of the model.
            model: Its name or folder, to be compared with the card's; None where it is not known.

        Raises:
            AdapterError: It is not.
        """
        named = None if self.card is None else self.card.base_model
        if model is not None and named is not None and _last_part(named) != _last_part(model):
            raise AdapterError(f"adapter {self.name}: it was trained for {named}, and this model is {model}: {_OTHER}")
        # Engines and versions name experts differently, and convert them.
        shapes = {module: parts for module, parts in self.shapes.items() if ".experts" not in module}
        if missing := sorted(shapes.keys() - modules.keys()):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise AdapterError(
                f"adapter {self.name}: it changes {missing[0]}{more}, which the model does not have: {_OTHER}"
            )
        for module, parts in shapes.items():
            found, size = (parts["B"][0], parts["A"][-1]), modules[module]
            # GPT-2's linear layers are (in, out).
            if found not in (size, size[::-1]):
                raise AdapterError(
                    f"adapter {self.name}: {module} is {_as_text(size)} in the model and {_as_text(found)} in the "
                    f"adapter: {_OTHER}"
                )

    def check_engine(self, max_rank: int | None = None) -> None:
        """Check that an engine can apply the whole adapter beside its model.

        Args:
            max_rank: vLLM's ``max_lora_rank``; None for a model of transformers, which applies more.

        Raises:
            AdapterError: It cannot.
        """
        unread = [name for name in (*_WHOLE, *(() if max_rank is None else _UNREAD)) if self.config.get(name)]
        if self.config.get("bias", "none") != "none":
            unread.append("bias")
        if unread:
            raise AdapterError(f"adapter {self.name}: the engine applies no {' or '.join(unread)}: {_WITHOUT}")
        if max_rank is None:
            return
        if self.rank > max_rank:
            raise AdapterError(
                f"adapter {self.name}: its rank is {self.rank} and the engine's max_lora_rank {max_rank}: raise "
                "max_lora_rank, or train with a smaller rank"
            )
        if heads := [module for module in self.shapes if module.endswith("lm_head")]:
            raise AdapterError(f"adapter {self.name}: the engine applies nothing to {heads[0]}: {_WITHOUT}")
        if self.others:
            raise AdapterError(f"adapter {self.name}: the engine does not apply {self.others[0]}: {_WITHOUT}")


def module_shapes(model: Any) -> dict[str, Shape]:
    """Return the shape (out, in) of each module of a transformers model that has a two-dimensional weight.

    The model may be on the device "meta".
    """
    shapes: dict[str, Shape] = {}
    for name, module in model.named_modules():
        # A quantized layer's weight is packed.
        features = getattr(module, "out_features", None), getattr(module, "in_features", None)
        shape: Any = getattr(getattr(module, "weight", None), "shape", ()) if None in features else features
        if len(shape) == 2:
            shapes[name] = tuple(shape)
    return shapes


def choose(cards: Mapping[str, Card | None], lang: str | None, n_words: int) -> str | None:
    """Choose, by the cards of adapters, the one trained most narrowly for a list; None where none was."""
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
            f"adapter {largest.name}: its rank is {largest.rank}, and the engine takes {RANKS[-1]} at most: train with "
            "a smaller rank"
        )
    return next(rank for rank in RANKS if rank >= largest.rank)


def _folder(name: str, source: str) -> Path:
    """Return an adapter's folder, downloaded from Hugging Face where ``source`` is an id."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if source.startswith(("/", "./", "../", "~")):
        raise AdapterError(
            f"adapter {name}: there is no folder {source}: expected one on every node, or a Hugging Face id"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(source, allow_patterns=list(FILES)))
    except (OSError, ValueError) as error:
        raise AdapterError(
            f"adapter {name}: {source!r} is no folder, and cannot be fetched from Hugging Face ({type(error).__name__})"
        ) from error


def _read_json(name: str, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AdapterError(f"adapter {name}: {path.name} cannot be read as JSON ({error}): save it again") from error
    if not isinstance(content, dict):
        raise AdapterError(f"adapter {name}: {path.name} is no JSON object: save it again")
    return content


def _card(name: str, path: Path) -> Card | None:
    if not path.is_file():
        return None
    given = {member: value for member, value in _read_json(name, path).items() if value is not None}
    try:
        return Card.model_validate({"format": None, **given})
    except ValidationError as error:
        member = error.errors()[0]["loc"][0]
        raise AdapterError(f"adapter {name}: {CARD} has a bad {member}: see docs/adapters.md") from None


def _tensors(name: str, path: Path) -> tuple[dict[str, dict[str, Shape]], tuple[str, ...]]:
    """Read a safetensors file: the shapes of lora_A and lora_B by module, and the names of all other tensors."""
    shapes: dict[str, dict[str, Shape]] = {}
    others: list[str] = []
    try:
        for key, shape in _shapes(path).items():
            match = _TENSOR.fullmatch(key)
            if match is None:
                others.append(key)
            else:
                shapes.setdefault(match[1], {})[match[2]] = shape
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AdapterError(f"adapter {name}: {path.name} cannot be read ({error}): save it again") from error
    for module, parts in shapes.items():
        is_pair = parts.keys() == {"A", "B"} and all(len(shape) == 2 for shape in parts.values())
        if not is_pair or parts["A"][0] != parts["B"][-1]:
            raise AdapterError(f"adapter {name}: {path.name} has no matching pair of lora_A and lora_B for {module}")
    if not shapes and not others:
        raise AdapterError(f"adapter {name}: {path.name} is empty: save it again")
    return shapes, tuple(others)


def _shapes(path: Path) -> dict[str, Shape]:
    """Read the shapes of all tensors of a safetensors file, and check that their numbers are finite.

    Raises:
        ValueError: The file is not whole, or has numbers that are infinite or none.
    """
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    header.pop("__metadata__", None)
    shapes: dict[str, Shape] = {}
    for key, tensor in header.items():
        shapes[key] = tuple(map(int, tensor["shape"]))
        first, end = tensor["data_offsets"]
        if not 0 <= first <= end <= len(data) - start:
            raise ValueError("the file is cut")
        kind, exponent = _EXPONENTS.get(tensor["dtype"], (np.uint8, 0))
        if exponent and bool(((data[start + first : start + end].view(kind) & exponent) == exponent).any()):
            raise ValueError(f"{key} has numbers that are infinite or none")
    return shapes


def _as_text(shape: Shape) -> str:
    return " × ".join(map(str, shape))


def _last_part(name: str) -> str:
    """Return a model's name without its owner or folder, in lower case."""
    return name.rstrip("/").rsplit("/", 1)[-1].lower()
