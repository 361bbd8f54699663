"""A table answered without the service, on two nodes: an engine is killed, then the run half way; it is complete."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.checker import assert_only_listed_words
from tests.e2e.own_engine import ENVIRONMENT, short_lists
from tests.e2e.processes import our_processes_named
from tests.pages import ROOT, blocks_run_by
from tools.docs.examples import commands

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

COMMAND, PROGRAM = blocks_run_by(__file__, "docs/batch.md")

NUM_ROWS = 120
VOCABULARIES: list[tuple[str | None, int | None]] = [
    ("en", 500), ("es", 1000), ("de", 300), ("fr", 700), ("it", 2000), (None, None),
]  # fmt: skip
UNKNOWN = ("xx", 100)
"""There is no such list: a row that becomes an error."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A cluster of two nodes."""
    command = [sys.executable, "-m", "tests.e2e.two_nodes", str(tmp_path / "lists"), str(tmp_path / "engine")]
    with (tmp_path / "cluster.log").open("w") as log:
        cluster = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert cluster.stdout is not None
        lines = (line.strip() for line in cluster.stdout)
        yield next(line for line in lines if ":" in line and " " not in line)
    finally:
        cluster.communicate(timeout=120)


def vocabulary(row: int) -> tuple[str | None, int | None]:
    return UNKNOWN if row % 50 == 7 else VOCABULARIES[row % len(VOCABULARIES)]


def write_table(path: Path) -> None:
    rows = range(1, NUM_ROWS + 1)
    table = pa.table(
        {
            "id": [f"text-{row}" for row in rows],
            "question": [f"Tell me something about the number {row}." for row in rows],
            "language": pa.array([vocabulary(row)[0] for row in rows], pa.string()),
            "level": pa.array([vocabulary(row)[1] for row in rows], pa.int32()),
            # Searches too, some of them.
            "beams": pa.array([2 if row % 40 == 0 else None for row in rows], pa.int8()),
        }
    )
    pq.write_table(table, path, row_group_size=100)


def write_config(path: Path, model: Path, **settings: Any) -> None:
    config: dict[str, Any] = {
        "model_name": str(model),
        "torch_dtype": "auto",
        "limits": {"max_input_tokens": 256, "max_new_tokens": 64},
        "placement_bundles": [{"CPU": 1, "engine": 1}],
        "vocabulary_resources": {"lists": 1},
        "engine_kwargs": {"enforce_eager": True, "max_model_len": 512, "max_num_seqs": 32},
        "replica_env": ENVIRONMENT | {"OMP_NUM_THREADS": "1"},
        "offline": {
            "columns": {
                "prompt": "question",
                "custom_id": "id",
                "vocab_lang": "language",
                "vocab_n_words": "level",
                "num_beams": "beams",
            },
            "request": {"max_tokens": 10},
            "rows_per_task": 8,
            "tasks_per_engine": 4,
            "part_s": 0.5,
        },
    }
    path.write_text(yaml.safe_dump(config | settings))


@pytest.mark.stress
def test_an_engine_without_the_plugin_answers_nothing(shallow_path: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    write_table(source)
    environment = ENVIRONMENT | {"VLLM_PLUGINS": "none", "OMP_NUM_THREADS": "1"}
    settings = {"placement_bundles": [{"CPU": 1}], "vocabulary_resources": {}, "replica_env": environment}
    write_config(tmp_path / "offline.yaml", shallow_path, **settings)
    command = [sys.executable, "-m", "deployments.offline", str(source), str(out), "--config"]
    ended = subprocess.run(
        [*command, str(tmp_path / "offline.yaml")], capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 1
    assert "has not loaded the vLLM plugin 'wordbound'" in ended.stderr
    assert not rows_of(out)["answers"]


def test_a_program_has_a_dataset_answered(shallow_path: Path, tmp_path: Path) -> None:
    lists = str(short_lists(tmp_path / "word lists", "en"))
    settings = {"placement_bundles": [{"CPU": 1}], "vocabulary_resources": {}, "wordlist_dir": lists}
    write_config(tmp_path / "offline.yaml", shallow_path, **settings)
    config = yaml.safe_load((tmp_path / "offline.yaml").read_text())
    # The column "number" is not of the request, and stays.
    fields = ("messages", "max_tokens", "vocab_lang", "vocab_n_words")
    config["offline"] = {"rows_per_task": 4, "columns": {name: name for name in fields}}
    (tmp_path / "offline.yaml").write_text(yaml.safe_dump(config))
    questions = [
        {
            "number": number,
            "messages": [{"role": "user", "content": f"Tell me about number {number}."}],
            "max_tokens": 8,
            "vocab_lang": "en",
            "vocab_n_words": 0 if number == 3 else 300 + number,
        }
        for number in range(12)
    ]
    pq.write_table(pa.Table.from_pylist(questions), tmp_path / "questions.parquet")
    # More places than this machine has cores: most of what runs waits.
    init = "import json\nimport ray\nray.init(address='local', num_cpus=3, include_dashboard=False)\n"
    # Into a file: Ray prints its workers' logs into the program's output, also in the middle of a line.
    rows_path = tmp_path / "rows.json"
    program = f"{init}{PROGRAM.text}json.dump(dataset.take_all(), open({str(rows_path)!r}, 'w'))\n"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    rows = json.loads(rows_path.read_text())
    assert sorted(row["number"] for row in rows) == list(range(12))
    for row in rows:
        if row["number"] == 3:
            assert (row["status"], row["answer"], row["completion"]) == (400, None, None)
            assert json.loads(row["error"])["error"]["param"] == "vocab_n_words"
            continue
        assert (row["status"], row["error"]) == (200, None)
        assert_only_listed_words(row["answer"], "en", 300 + row["number"])
        assert json.loads(row["completion"])["vocab"]["n_words"] == 300 + row["number"]


@pytest.mark.fault(52)
def test_a_run_that_is_killed_goes_on_and_is_complete(shallow_path: Path, tmp_path: Path, address: str) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    write_table(source)
    lists = short_lists(tmp_path / "word lists", "en", "es", "de", "fr", "it")
    write_config(tmp_path / "offline.yaml", shallow_path, wordlist_dir=str(lists), engine_stall_s=0.5)
    [typed] = commands(COMMAND)
    python, *how, _, _, option, config = typed.text.split()
    assert (python, config) == ("python", "configs/offline/one-gpu.yaml")
    command = [sys.executable, *how, str(source), str(out), option, str(tmp_path / "offline.yaml")]
    environment = os.environ | {"RAY_ADDRESS": address, "HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    with (tmp_path / "first.log").open("w") as log:
        first = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_rows(out, 1, first, tmp_path / "first.log")
        # An engine that takes long over a step is waited for, longer than the service would.
        engine = engine_process()
        os.kill(engine, signal.SIGSTOP)
        time.sleep(3)
        os.kill(engine, signal.SIGCONT)
        num_rows = len(rows_of(out)["answers"])
        wait_for_rows(out, num_rows + 1, first, tmp_path / "first.log")
        assert engine_process() == engine
        # One that dies is started anew, and its rows are given to it again.
        os.kill(engine, signal.SIGKILL)
        wait_for_rows(out, NUM_ROWS // 3, first, tmp_path / "first.log")
    finally:
        first.kill()
        first.wait()
    before = rows_of(out)
    assert len(before["answers"]) < NUM_ROWS * 0.9, "the run was too fast to be killed half way"

    assert (tmp_path / "first.log").read_text(errors="replace").count("its engine keeps to word lists") == 2

    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert second.returncode == 0, second.stdout[-2000:] + second.stderr[-4000:]
    assert f"{NUM_ROWS} rows: " in second.stdout
    summary = json.loads((out / "_summary.json").read_text())
    assert summary["num_skipped"] == len(before["answers"]) + len(before["errors"]) > 0

    written = rows_of(out)
    ids = sorted(row["custom_id"] for rows in written.values() for row in rows)
    assert ids == sorted(f"text-{row}" for row in range(1, NUM_ROWS + 1))
    assert sorted(row["row"] for row in written["errors"]) == list(range(7, NUM_ROWS + 1, 50))
    assert all("'xx'" in row["message"] and row["param"] == "vocab_lang" for row in written["errors"])
    for row in written["answers"]:
        lang, n_words = vocabulary(row["row"])
        assert (row["language"], row["level"]) == (lang, n_words)
        assert row["completion_tokens"] <= 10
        if lang is not None and n_words is not None:
            assert json.loads(row["completion"])["vocab"]["lang"] == lang
            assert_only_listed_words(row["answer"], lang, n_words)
    # Compiled on one node, and brought to the other.
    assert len(list((tmp_path / "engine" / "artefacts").glob("*.safetensors"))) > 5


def rows_of(out: Path) -> dict[str, list[dict[str, Any]]]:
    """What is written, whole parts only: a half one would not be read."""
    return {
        name: [row for path in (out / name).glob("part-*.parquet") for row in pq.read_table(path).to_pylist()]
        for name in ("answers", "errors")
    }


def engine_process() -> int:
    """The engine's process of this test, which descends from it."""
    ours = our_processes_named("VLLM::EngineCore")
    assert ours, "no engine runs"
    return max(ours)


def wait_for_rows(out: Path, num_rows: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while len(rows_of(out)["answers"]) < num_rows:
        assert process.poll() is None, f"it ended too early:\n{log.read_text(errors='replace')[-4000:]}"
        assert time.monotonic() < deadline, f"it takes too long:\n{log.read_text(errors='replace')[-4000:]}"
        time.sleep(0.2)
