"""The configuration of an offline run."""

from pathlib import Path
from typing import Any

import pytest

from deployments.offline.config import OfflineConfig
from deployments.settings.limits import Limits
from deployments.settings.service import SettingsError
from tests.deployments.offline.conftest import make_config


def test_a_run_needs_no_key_and_one_in_the_environment_is_of_no_use() -> None:
    config = OfflineConfig.load({"model_name": "/models/toy"}, {"SECRET_TOKEN": "changeme"})
    assert (config.settings.model_id, config.settings.demo, config.offline.engines) == ("toy", False, 1)


def test_a_file_gives_settings_and_the_block_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "offline.yaml"
    path.write_text(
        "model_name: /models/toy\nlimits: {max_new_tokens: 50}\nwordlist_dir: lists\noffline: {engines: 3}\n"
    )
    config = OfflineConfig.read(path, {})
    assert config.settings.wordlist_dir == tmp_path / "lists"
    assert (config.settings.limits.max_new_tokens, config.offline.engines) == (50, 3)
    for content in ("- a list", "just text", "{", "\x00", None):
        path.unlink() if content is None else path.write_text(content)
        with pytest.raises(SettingsError, match=r"offline\.yaml"):
            OfflineConfig.read(path, {})


def test_a_bad_key_or_value_is_named() -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"engine": 2}, r"offline\.engine: unknown setting; known are .*engines"),
        ({"engines": 0}, r"offline\.engines=0"),
        ({"columns": {"system": "s"}}, "column that holds the prompt"),
        ({"columns": {"prompt": "p", "messages": "m"}}, "column that holds the prompt"),
        ({"columns": {"prompt": "p", "vocab_langg": "l"}}, r"offline\.columns: .*vocab_langg"),
        ({"columns": {"prompt": "p", "stop.first": "l"}}, "only members of vocab"),
        ({"request": {"temprature": 1}}, r"offline\.request: .*temprature"),
        ({"request": {"temperature": "hot"}}, r"offline\.request: .*temperature"),
    ]
    for offline, named in faults:
        with pytest.raises(SettingsError, match=named):
            make_config(**offline)


def test_the_digest_changes_with_what_is_answered_and_not_with_how_fast() -> None:
    digest = make_config().digest
    assert make_config().digest == digest
    assert make_config({"engine_kwargs": {"max_num_seqs": 8}}, engines=4, part_rows=5).digest == digest
    assert make_config({"engine_kwargs": {"chat_template": "x"}}).digest != digest
    assert make_config(request={"max_tokens": 5}).digest != digest
    assert make_config({"model_name": "/models/other"}).digest != digest
    assert make_config({"hint": False}).digest != digest
    assert make_config({"limits": {"max_new_tokens": 50}}).digest != digest


class LaterLimits(Limits):
    """Those of a release that has one more."""

    max_moons: int = 5


def test_a_release_with_a_new_limit_has_the_digest_of_the_one_before_until_it_is_set() -> None:
    config = make_config({"limits": {"max_new_tokens": 50}})

    def later(**limits: int) -> OfflineConfig:
        changed = {"limits": LaterLimits(max_new_tokens=50, **limits)}
        return config.model_copy(update={"settings": config.settings.model_copy(update=changed)})

    assert later().digest == later(max_moons=5).digest == config.digest
    assert later(max_moons=4).digest != config.digest


EXAMPLES = Path(__file__).parents[3] / "configs" / "offline"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_configurations_that_keep_their_engines_busy(path: Path) -> None:
    config = OfflineConfig.read(path, {})
    assert config.settings.placement_bundles
    rows = config.offline.rows_per_task * config.offline.tasks_per_engine
    assert rows >= config.settings.engine_kwargs["max_num_seqs"]
