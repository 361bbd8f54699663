"""The Dockerfile and the compose file hold what the service needs, and no secret. Nothing here builds an image."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft7Validator

from deployments.ingress.app import create_app
from deployments.settings.service import Settings
from deployments.settings.sources import SECRET_NAME

ROOT: Final = Path(__file__).parents[1]
SCHEMA: Final = Path(__file__).parent / "schemas" / "compose-spec" / "compose-spec.json"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile, in its order, each on one line and without comments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def arguments(name: str) -> list[str]:
    return [argument for instruction, argument in instructions() if instruction == name]


def environment() -> dict[str, str]:
    pairs = (pair.partition("=") for line in arguments("ENV") for pair in line.split())
    return {name: value for name, _, value in pairs}


def copied() -> list[str]:
    """What comes from the build's context."""
    return [path for line in arguments("COPY") if "--from" not in line for path in line.split()[:-1]]


def is_in_context(path: str) -> bool:
    """As Docker reads .dockerignore: the last pattern that fits a path, or a folder above it, decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if not pattern or line.startswith("#"):
            continue
        folders = [path, *(str(parent) for parent in PurePosixPath(path).parents if str(parent) != ".")]
        names = list(PurePosixPath(path).parts) if "**/" in line else folders
        if any(fnmatch(name, pattern) for name in names):
            kept = line.startswith("!")
    return kept


def test_hadolint_finds_nothing_to_say() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: its package has builds for Linux on x86-64")
    result = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "")


def test_there_is_an_image_for_each_kind_of_machine_with_its_packages_and_its_configuration() -> None:
    stages = {stage.partition(" AS ")[2] for stage in arguments("FROM")}
    installs = [line for line in arguments("RUN") if "pip install" in line]
    for kind in ("cpu", "gpu"):
        assert {kind, f"{kind}-packages"} <= stages
        assert sum(f"pip install --no-deps --require-hashes -r locks/{kind}.txt" in line for line in installs) == 1
        assert SERVICES[kind]["build"]["target"] == kind
    # Nothing comes that the locks do not name.
    assert [line for line in installs if line.count("pip install") != line.count("pip install --no-deps ")] == []
    for [config] in (json.loads(line) for line in arguments("CMD")):
        http = yaml.safe_load((ROOT / config).read_text())["http_options"]
        assert (http["host"], http["port"]) == ("0.0.0.0", 8000)  # or nobody outside the container reaches it


def test_the_configurations_of_the_images_are_settings_that_want_a_key_of_the_operators(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "SECRET_TOKEN").write_text("a key of the operator's\n")
    for [config] in (json.loads(line) for line in arguments("CMD")):
        [application] = yaml.safe_load((ROOT / config).read_text())["applications"]
        assert "secret_token" not in application["args"]
        monkeypatch.setenv("SECRETS_DIR", str(tmp_path))
        assert Settings.load(application["args"]).secret_token.get_secret_value() == "a key of the operator's"


def test_nobody_in_a_container_is_root() -> None:
    assert arguments("USER") == ["10001:10001"]
    assert any("useradd --uid 10001" in line for line in arguments("RUN"))
    for service in SERVICES.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_health_is_asked_of_routes_that_need_no_key() -> None:
    [of_image] = arguments("HEALTHCHECK")
    asked = [of_image, *(" ".join(service["healthcheck"]["test"]) for service in SERVICES.values())]
    routes = [re.findall(r"http://127\.0\.0\.1:8000(/\w+)'", command) for command in asked]
    assert routes == [["/health"], ["/ready"], ["/ready"]]
    nobody: Any = None
    app = create_app(Settings(secret_token="of-no-service"), nobody)
    assert all(app.state.routes.is_open(route.encode()) for [route] in routes)


def test_folders_that_become_volumes_belong_to_the_user_of_the_container() -> None:
    made = " ".join(line for line in arguments("RUN") if "install -d -o wordbound" in line)
    settings = environment()
    for service in SERVICES.values():
        mounted = {volume.partition(":")[0]: volume.partition(":")[2] for volume in service["volumes"]}
        assert mounted.keys() == COMPOSE["volumes"].keys()
        assert all(f" {folder} " in f"{made} " for folder in mounted.values())
        assert mounted["models"] == settings["HF_HOME"]
        assert mounted["state"] == settings["WORDBOUND_STATE"]
        assert settings["NUMBA_CACHE_DIR"].startswith(mounted["cache"] + "/")


def test_secrets_are_files_and_in_no_layer() -> None:
    assert environment()["SECRETS_DIR"] == "/run/secrets"
    paths = {name: value for name, value in environment().items() if SECRET_NAME.search(name)}
    assert all(value.startswith("/run/secrets") for value in paths.values())
    assert not [line for line in arguments("ARG") if SECRET_NAME.search(line.partition("=")[0])]
    for service in SERVICES.values():
        assert service["secrets"] == ["SECRET_TOKEN"]
        assert not [name for name in service["environment"] if SECRET_NAME.search(name)]


def test_what_is_copied_reaches_the_builder_is_all_that_a_package_is_made_of_and_nothing_private() -> None:
    private = (".env", "secrets/SECRET_TOKEN", ".git/config", "configs/.env", "deployments/.env.local")
    assert [path for path in (*private, "vocab/__pycache__/a.pyc") if is_in_context(path)] == []
    assert [path for path in copied() if not is_in_context(path)] == []
    assert [path for path in copied() if not (ROOT / path).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages <= set(copied())
    links = [entry for name in packages for entry in (ROOT / name).rglob("*") if entry.is_symlink()]
    targets = [link.resolve().relative_to(ROOT) for link in links]
    assert len(targets) == 3
    assert [target for target in targets if target.parts[0] not in copied()] == []


def test_the_compose_file_fits_its_schema_and_publishes_one_port() -> None:
    validator = Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [fault.message for fault in validator.iter_errors(COMPOSE)] == []
    misspelled = {**COMPOSE, "services": {"cpu": {**SERVICES["cpu"], "volume": []}}}
    assert ["'volume'" in fault.message for fault in validator.iter_errors(misspelled)] == [True]
    # Only port 8000 is published, and to this machine alone.
    assert arguments("EXPOSE") == ["8000"]
    assert all(service["ports"] == ["127.0.0.1:8000:8000"] for service in SERVICES.values())
