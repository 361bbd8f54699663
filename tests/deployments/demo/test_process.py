"""What the demo starts, without starting it."""

from pathlib import Path

import pytest

from deployments.demo.process import Demo, DemoError


def test_the_demo_reads_the_env_file_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("LLM_SERVING_API_KEY=k\nMAX_INPUT_TOKENS=99\nALLOWED_MAX_NEW_TOKENS=16,64\n")
    monkeypatch.chdir(tmp_path)
    demo = Demo("some/model", tmp_path / "demo")
    settings = demo.settings
    demo.stop()
    assert settings.secret_token.get_secret_value() == "k"
    assert (settings.limits.max_input_tokens, settings.limits.allowed_new_tokens) == (99, (16, 64))


def test_the_address_of_the_page_has_the_demos_key_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    demo = Demo("some/model", tmp_path / "demo")
    assert demo.page_url == f"http://127.0.0.1:{demo.port}/#key=changeme"
    demo.stop()
    monkeypatch.setenv("SECRET_TOKEN", "a-secret")
    demo = Demo("some/model", tmp_path / "demo")
    assert demo.page_url == f"http://127.0.0.1:{demo.port}/"
    demo.stop()


def test_two_runs_at_once_share_neither_log_nor_batches_nor_port_and_the_next_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (Demo("some/model", tmp_path / "demo") for _ in range(2))
    assert [run.log_path.parent.name for run in (first, second)] == ["demo", "demo-2"]
    assert [run.settings.batch.state_dir for run in (first, second)] == [
        run.log_path.parent / "state" for run in (first, second)
    ]
    assert first.port != second.port
    first.stop()
    third = Demo("some/model", tmp_path / "demo")
    assert third.log_path == first.log_path
    monkeypatch.setattr("deployments.demo.process.MAX_RUNS", 2)
    with pytest.raises(DemoError, match="2 runs have"):
        Demo("some/model", tmp_path / "demo")
    second.stop()
    third.stop()
