"""A service's YAML file names the port and the model that are checked before it is served."""

from pathlib import Path

import pytest

from wordbound.cli.commands import InputError
from wordbound.cli.doctor import Configuration

ROOT = Path(__file__).parents[3]
SERVED = [path for path in (ROOT / "configs").glob("*.yaml") if path.name != "kuberay.yaml"]
"""One is of Kubernetes, which holds such a file."""


@pytest.mark.parametrize("path", [ROOT / "serve_config.yaml", *sorted(SERVED)], ids=str)
def test_the_files_of_this_repository_are_read(path: Path) -> None:
    assert Configuration.read(path).port == 8000


def test_the_model_is_the_applications(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("http_options: {port: 18000}\napplications:\n  - args: {model_name: maker/model}\n")
    assert Configuration.read(path) == Configuration(18000, "maker/model", {"model_name": "maker/model"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is no YAML file"),
        ("", "has no `applications`"),
        ("applications: []", "has no `applications`"),
        ("applications: [{args: {model_name: 3}}]", "a name as args.model_name"),
    ],
)
def test_another_file_is_wrong_input(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Configuration.read(path)
    with pytest.raises(InputError, match="No such file"):
        Configuration.read(tmp_path / "none.yaml")
