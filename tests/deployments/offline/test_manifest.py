"""What says to which run an output belongs."""

from pathlib import Path
from typing import Any

import pytest

from deployments.offline.manifest import begin_or_go_on, only_run
from deployments.offline.pieces import Input
from deployments.offline.source import RefusedError
from deployments.storage import Location
from tests.deployments.offline.conftest import MakeConfig


def found(**fields: Any) -> Input:
    return Input("jsonl", files=[{"name": "in.jsonl", "bytes": 3, "rows": 1, "sha256": "ab", **fields}])


def test_the_same_run_goes_on(tmp_path: Path, make_config: MakeConfig) -> None:
    place = Location.of(str(tmp_path / "out"))
    with only_run(place):
        assert begin_or_go_on(place, found(), make_config()) is False
        assert begin_or_go_on(place, found(), make_config(engines=5)) is True


@pytest.mark.parametrize(
    ("survey", "offline", "difference"),
    [
        (found(sha256="cd"), {}, r"another content of in\.jsonl"),
        (found(name="other.jsonl"), {}, r"other files: in\.jsonl, other\.jsonl"),
        (found(), {"request": {"max_tokens": 5}}, "a configuration that gives other answers"),
    ],
)
def test_another_run_is_refused(
    tmp_path: Path, make_config: MakeConfig, survey: Input, offline: dict[str, Any], difference: str
) -> None:
    place = Location.of(str(tmp_path))
    begin_or_go_on(place, found(), make_config())
    with pytest.raises(RefusedError, match=difference):
        begin_or_go_on(place, survey, make_config(**offline))


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, make_config: MakeConfig) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError, match="is not empty"):
        begin_or_go_on(Location.of(str(tmp_path)), found(), make_config())


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', "{}"])
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, make_config: MakeConfig, content: str) -> None:
    (tmp_path / "_manifest.json").write_text(content)
    with pytest.raises(RefusedError):
        begin_or_go_on(Location.of(str(tmp_path)), found(), make_config())


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    place = Location.of(str(tmp_path))
    with only_run(place), pytest.raises(RefusedError, match="another run"), only_run(place):
        pass
    with only_run(place):
        pass


def test_a_url_is_begun_too(make_config: MakeConfig) -> None:
    place = Location.of("memory://manifests/out")
    with only_run(place):
        assert begin_or_go_on(place, found(), make_config()) is False
        assert begin_or_go_on(place, found(), make_config()) is True
