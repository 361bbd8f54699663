"""What the demo starts, without starting it."""

from pathlib import Path
from typing import Any

import pytest

from deployments.demo import process
from deployments.demo.process import Demo


def test_the_demo_and_its_service_read_the_env_file_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("LLM_SERVING_API_KEY=k\nMAX_INPUT_TOKENS=99\nALLOWED_MAX_NEW_TOKENS=16,64\n")
    monkeypatch.chdir(tmp_path)
    started: dict[str, Any] = {}
    monkeypatch.setattr(process.subprocess, "Popen", lambda *_, **options: started.update(options))
    demo = Demo("some/model", tmp_path / "demo")
    assert demo.settings.secret_token.get_secret_value() == "k"
    assert (demo.settings.limits.max_input_tokens, demo.settings.limits.allowed_new_tokens) == (99, (16, 64))
    demo.start()
    # The application is built in a process of Ray's, which need not be in this folder.
    assert started["env"]["WORDBOUND_ENV_FILE"] == str(tmp_path / ".env")
