"""``wordbound doctor`` makes every check, and fails where one of them does."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.wordbound.cli.conftest import Run, StandInService
from wordbound.cli import app, machine
from wordbound.cli.machine import Finding


@pytest.fixture(autouse=True)
def _alike_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "check_port", lambda port: Finding("ok", f"port {port} is free"))
    monkeypatch.setattr(machine, "gpus", list)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)


def test_it_tells_what_it_found_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = CliRunner().invoke(app, ["doctor", "--port", "18000", "--model", str(tmp_path)])
    assert done.exit_code == 0
    assert "ok    port 18000 is free\n" in done.output
    assert f"ok    the model in {tmp_path}\n" in done.output


def test_it_fails_with_what_to_do_where_something_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_NAME", str(tmp_path))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert f"fail  {tmp_path} has no config.json\n      -> name a folder" in done.output


def test_the_file_that_is_to_be_served_names_model_and_port(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    config = tmp_path / "serve.yaml"
    config.write_text(f"http_options: {{port: 18001}}\napplications:\n  - args: {{model_name: {tmp_path}}}\n")
    done = CliRunner().invoke(app, ["doctor", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "ok    port 18001 is free\n" in done.output
    assert f"ok    the model in {tmp_path}\n" in done.output
    assert "ok    the weights take 0.0 GiB as stored, and the machine has" in done.output


def test_a_service_is_asked_whether_it_takes_the_key(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = run("doctor")
    assert f"ok    the service at {stand_in.url} serves stand-in, and takes the key\n" in asked.output
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    refused = run("doctor")
    assert refused.exit_code == 1
    assert "does not know this key: set WORDBOUND_API_KEY" in refused.output
