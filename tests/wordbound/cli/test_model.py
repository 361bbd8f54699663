from pathlib import Path
from typing import NoReturn

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from wordbound.cli.model import check_model


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
