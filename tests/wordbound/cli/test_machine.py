import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.replica.engine import dtype
from wordbound.cli.machine import (
    BFLOAT16,
    check_gpus,
    check_port,
    check_processor,
    check_python,
    check_system,
    gpus,
    processor_flags,
)


@pytest.mark.parametrize(("version", "level"), [((3, 10), "fail"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "fail")])
def test_the_pythons_of_the_package_are_supported(version: tuple[int, int], level: str) -> None:
    assert check_python(version).level == level


@pytest.mark.parametrize(
    ("system", "machine", "level"),
    [("Linux", "x86_64", "ok"), ("Linux", "aarch64", "ok"), ("Linux", "riscv64", "fail"), ("Darwin", "arm64", "fail")],
)
def test_the_service_runs_where_vllm_publishes_wheels(system: str, machine: str, level: str) -> None:
    assert check_system(system, machine, serves=True).level == level


def test_the_library_runs_where_the_service_does_not() -> None:
    finding = check_system("Darwin", "arm64", serves=False)
    assert finding.level == "note"
    assert "Linux container" in finding.todo


@pytest.mark.parametrize("key", ["flags", "Features"])
def test_flags_are_those_of_the_first_processor(tmp_path: Path, key: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{key}\t\t: fpu avx2\n\nprocessor\t: 1\n{key}\t\t: other\n")
    assert processor_flags(cpuinfo) == {"fpu", "avx2"}
    assert processor_flags(tmp_path / "none") == frozenset()


def test_a_processor_is_told_by_what_it_calculates_in() -> None:
    fast = check_processor(frozenset({"avx2", "avx512_bf16"}), 2, "x86_64", serves_on_it=True)
    assert (fast.level, "bfloat16 (avx512_bf16)" in fast.said) == ("ok", True)
    plain = check_processor(frozenset({"avx2"}), 2, "x86_64", serves_on_it=True)
    assert (plain.level, "computes in float32" in plain.said) == ("ok", True)
    assert check_processor(frozenset({"sse2"}), 2, "x86_64", serves_on_it=True).level == "fail"
    assert check_processor(frozenset({"sse2"}), 2, "x86_64", serves_on_it=False).level == "ok"
    assert check_processor(frozenset(), 2, "x86_64", serves_on_it=True).level == "note"


def test_a_processor_is_told_by_the_flags_that_the_service_goes_by() -> None:
    assert set(dtype.BFLOAT16_FLAGS) == BFLOAT16


def test_gpus_are_what_nvidia_smi_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []
    told = tmp_path / "nvidia-smi"
    told.write_text("#!/bin/sh\necho 'NVIDIA H100, 81559 MiB, 580.1'\n")
    told.chmod(0o700)
    assert gpus() == ["NVIDIA H100, 81559 MiB, 580.1"]
    told.write_text("#!/bin/sh\nexit 9\n")
    assert gpus() == []


@pytest.mark.parametrize(
    ("found", "engine", "level"),
    [
        ([], "vllm", "fail"),
        ([], "vllm-cpu", "ok"),
        ([], None, "ok"),
        (["H100"], "vllm", "ok"),
        (["H100"], "vllm-cpu", "note"),
    ],
)
def test_an_engine_for_gpus_needs_one(found: list[str], engine: str | None, level: str) -> None:
    assert check_gpus(found, engine).level == level


class _Answers(http.server.BaseHTTPRequestHandler):
    status = "ok"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": self.status}).encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


@pytest.fixture
def service() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


def test_a_port_may_be_free_or_the_services_own(service: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_port(service).said == f"port {service}: the service answers"
    monkeypatch.setattr(_Answers, "status", "of another program")
    assert check_port(service).level == "fail"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert check_port(port).said == f"port {port} is free"
