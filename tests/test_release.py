"""A release is a tag, which gives the package its version, and an entry of the changelog."""

import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tools.release import release_entry

ROOT = Path(__file__).parents[1]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of the files that give a version, with one tag."""
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "v1.2.3")
    return tmp_path


def package_version(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "setuptools_scm"], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def image_version(folder: Path) -> str:
    """Return what ``make image`` calls it, where docker only prints its arguments."""
    docker = folder / "docker"
    docker.write_text('#!/bin/sh\necho "$@"\n')
    docker.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "image"],
        cwd=folder,
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"--build-arg VERSION=(\S*) ", done.stdout)
    assert found, done.stdout
    return found[1]


def test_a_tag_is_the_version_of_package_and_image(clone: Path) -> None:
    assert package_version(clone) == "1.2.3"
    assert image_version(clone) == "1.2.3"


def test_commits_after_it_are_versions_of_their_own(clone: Path) -> None:
    git(clone, "commit", "--allow-empty", "-qm", "second")
    assert package_version(clone).startswith("1.2.3.post1+g")
    assert package_version(clone).startswith(image_version(clone))


def test_sources_without_a_history_say_so(clone: Path) -> None:
    shutil.rmtree(clone / ".git")
    assert package_version(clone) == "0.0.0"
    assert image_version(clone) == ""


@pytest.mark.parametrize("version", ["", "0.1", "v0.1.0", "0.1.0.post1+g123", "0.0.9"])
def test_a_version_that_is_none_or_was_released_is_refused(version: str) -> None:
    with pytest.raises(SystemExit, match=r"make release VERSION=0\.1\.0|has 0\.0\.9 already"):
        release_entry("# Changelog\n\n## Unreleased\n\n## 0.0.9 (1 June 2026)\n", version, date(2026, 12, 1))


def test_what_is_unreleased_becomes_the_entry_of_the_version() -> None:
    changelog = release_entry("# Changelog\n\n## Unreleased\n\n- New.\n", "0.1.0", date(2026, 12, 1))
    assert changelog == "# Changelog\n\n## Unreleased\n\n## 0.1.0 (1 December 2026)\n\n- New.\n"
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_tag_has_its_entry() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    tags = git(ROOT, "tag", "--list", "v*").split() if (ROOT / ".git").exists() else []
    for tag in tags:
        assert re.search(rf"^## {re.escape(tag.removeprefix('v'))} ", changelog, re.MULTILINE), tag
