"""``wordbound doctor`` makes every check, and fails where one of them does."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wordbound.cli import app, machine
from wordbound.cli.finding import Finding


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
