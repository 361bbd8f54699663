"""The settings of ``wordbound train``, from a YAML file and options of the command line."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wordbound.train.filters import FilterSettings
from wordbound.train.options import TrainError, TrainingSettings
from wordbound.train.writing import write_text

CPU_SERVICE: Final[dict[str, Any]] = {
    "placement_bundles": [{"CPU": 1}],
    "max_sequences": 64,
    "limits": {"max_input_tokens": 1024, "max_new_tokens": 1024},
    "engine_kwargs": {"enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 64},
    "replica_env": {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "1",
    },
    "offline": {"rows_per_task": 8, "tasks_per_engine": 4, "part_s": 30.0},
}
"""Settings of the service on a machine without a GPU, as in configs/demo.yaml."""


class TrainConfig(BaseModel):
    """How texts are written and an adapter is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(min_length=1)
    """The base model: a Hugging Face id or a local folder, with a chat template."""
    name: str = Field(default="", pattern=r"[\w.-]*")
    """The adapter's name, by default ``<lang>-words``."""
    lang: str = "en"
    """The built-in list, and the language of the prompts."""
    word_counts: tuple[int, ...] = Field(default=(300, 500, 1000, 2000, 3000, 5000), min_length=1)
    """The sizes of list that texts are written for, in turn; the prompt names them, so one adapter serves them all."""
    num_texts: int = Field(default=240, ge=1)
    """Texts that each round writes. 1,000 took 22 minutes for 135 million weights, on one core."""
    rounds: int = Field(default=1, ge=1, le=8)
    """Each after the first has its texts written by the model with the adapter of the round before, and trains anew on
    the texts of all rounds."""
    max_tokens: tuple[int, ...] = Field(default=(48, 64, 80, 96), min_length=1)
    """Their budgets, drawn at random."""
    teacher: dict[str, Any] = {"num_beams": 4}
    """Fields of the requests that write them: beams, ``best_of``, or ``{"vocab": {"search": {"width": 4}}}``."""
    prompts: Path | None = None
    """A file of prompts, one a line; by default the built-in ones of the language."""
    texts: Path | None = None
    """Texts of one's own to learn from instead: JSON Lines of ``prompt`` and ``text``, or plain text, whose paragraphs
    blank lines part. What is not in the list is left out, and shown."""
    filters: FilterSettings = FilterSettings()
    """Which texts are left out."""
    training: TrainingSettings = TrainingSettings()
    """How the adapter is trained."""
    service: dict[str, Any] = {}
    """Settings of the service that writes the texts; by default those of a CPU where there is no GPU."""
    licence: str = ""
    """The adapter's licence, for its card; that of the base model holds besides."""
    seed: int = 0
    """Of the choice of prompts and budgets."""

    @property
    def adapter_name(self) -> str:
        return self.name or f"{self.lang}-words"

    @classmethod
    def load(cls, path: Path | None, options: Mapping[str, Any]) -> Self:
        """Load the settings of a YAML file, if there is one, with ``options`` in place of its own.

        An option that is a field of ``TrainingSettings`` is one of ``training``.

        Raises:
            TrainError: The file cannot be read, or a setting is unknown or bad.
        """
        given: Any = {}
        if path is not None:
            try:
                given = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                raise TrainError(f"{path}: cannot be read: {error}") from None
            if not isinstance(given, dict):
                raise TrainError(f"{path}: expected keys and values, such as model: …")
        given = given | dict(options)
        own = {one.name: given.pop(one.name) for one in fields(TrainingSettings) if one.name in options}
        try:
            if own and isinstance(training := given.setdefault("training", {}), dict):
                given["training"] = training | own
            return cls.model_validate(given)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(map(str, fault["loc"]))
            raise TrainError(f"{place}: {fault['msg']}; `wordbound train --help` names the settings") from None

    @model_validator(mode="after")
    def _check_rounds(self) -> Self:
        if self.texts is not None and self.rounds > 1:
            raise ValueError("rounds write texts, and texts are given: leave one of them out")
        return self

    def service_settings(self, *, has_gpu: bool, adapter: Path | None = None) -> dict[str, Any]:
        """Return the arguments of the service that writes the texts, with an adapter or none."""
        defaults = {} if has_gpu else CPU_SERVICE
        lora = {} if adapter is None else {"lora": {self.adapter_name: str(adapter)}}
        return {"prebuild_langs": [self.lang], **defaults, **self.service, **lora, "model_name": self.model}

    def save(self, path: Path) -> None:
        """Write the settings of a run, or compare them with those of the run that is there.

        Raises:
            TrainError: That run has others.
        """
        settings = json.loads(self.model_dump_json())
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            changed = sorted(key for key in settings.keys() | before.keys() if settings.get(key) != before.get(key))
            if changed:
                raise TrainError(
                    f"{path.parent}: holds a run with another {', '.join(changed)}: name another folder, or delete it"
                )
            return
        write_text(path, json.dumps(settings, indent=2))
