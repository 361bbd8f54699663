"""What ``wordbound doctor`` asks of memory: whether the model's weights fit, and what Ray shares between processes."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

import psutil

from wordbound.cli.finding import Finding

_WEIGHTS: Final = ("*.safetensors", "*.bin")
_GIB: Final = 2**30

_SHARED: Final = Path("/dev/shm")  # noqa: S108 - where Ray puts the objects that processes share
_SHARED_BYTES: Final = _GIB
"""Ray warns, and uses the disk, where there is less than its object store takes; a container has 64 MiB by default."""

_GPU_MEMORY: Final = re.compile(r"(\d+) MiB")


def weight_bytes(model: str) -> int | None:
    """Return the bytes of a model's weights, in a folder or in Hugging Face's cache; None where they are unknown."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        cached = _cached_folder(model)
        if cached is None:
            return None
        folder = cached
    for pattern in _WEIGHTS:
        if found := [path.stat().st_size for path in folder.glob(pattern)]:
            return sum(found)
    return None


def check_memory(needed: int | None, gpus: list[str], engine: str | None, has: int | None = None) -> Finding:
    """Check that the weights fit into the GPUs together, or into memory where the processor computes."""
    memories = [int(found[1]) * 2**20 for gpu in gpus if (found := _GPU_MEMORY.search(gpu))]
    on_gpu = engine == "vllm" and bool(memories)
    room = sum(memories) if on_gpu else has or psutil.virtual_memory().total
    where = (
        f"{len(memories)} GPUs have" if on_gpu and len(memories) > 1 else "the GPU has" if on_gpu else "the machine has"
    )
    if needed is None:
        return Finding("ok", f"{where} {_gib(room)} of memory")
    said = f"the weights take {_gib(needed)} as stored, and {where} {_gib(room)}"
    if needed > room:
        more = ", or more of them (tensor_parallel_size)" if on_gpu else ""
        return Finding("fail", said, f"name a smaller or a quantized model, or serve on a larger machine{more}")
    return Finding("ok", said)


def check_shared_memory(path: Path = _SHARED) -> Finding:
    try:
        room = shutil.disk_usage(path).total
    except OSError:
        return Finding("note", f"there is no {path}: Ray shares objects through files, which is slower")
    if room < _SHARED_BYTES:
        return Finding(
            "note",
            f"{path} has {room / 2**20:,.0f} MiB: Ray shares objects through files, which is slower",
            "start the container with --shm-size=2g",
        )
    return Finding("ok", f"{path} has {_gib(room)}")


def _cached_folder(model: str) -> Path | None:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface"))
    snapshots = (
        Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
        / f"models--{model.replace('/', '--')}"
        / "snapshots"
    )
    try:
        found = sorted(snapshots.iterdir(), key=lambda folder: folder.stat().st_mtime)
    except OSError:
        return None
    return found[-1] if found else None


def _gib(number: int) -> str:
    return f"{number / _GIB:,.1f} GiB"
