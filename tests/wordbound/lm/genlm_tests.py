"""genlm-backend's own tests, fetched from the package index and run in a process that finds our modules by its names.

Its source distribution is kept in the user's cache; nothing of it is in the repository.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from deployments.settings.service import cache_dir

ROOT: Final = Path(__file__).parents[3]
REQUIREMENT: Final = "genlm-backend==0.3.1"
ARCHIVE: Final = "genlm_backend-0.3.1.tar.gz"
SHA256: Final = "6d114a8a2a87ea0b874dfe08dab431ec827625e1bb47ea6377e1a673f0f90a50"

_TIMEOUT_S: Final = 300


def outcomes(
    files: Mapping[str, Mapping[str, str]], folder: Path, left_out: Iterable[str] = ()
) -> dict[str, dict[str, str]]:
    """Run files of the tests in one process.

    Args:
        files: By name, such as ``test_token.py``: by text of the file, what stands in its place.
        folder: An empty one, for the files.
        left_out: Tests that are not run, ``test_token.py::test_token_ne``.

    Returns:
        By file and test, ``passed``, ``skipped: …`` or ``failed: …``.
    """
    with tarfile.open(_archive()) as archive:
        for name, replaced in {"conftest.py": {}, **files}.items():
            member = archive.extractfile(f"{ARCHIVE.removesuffix('.tar.gz')}/tests/{name}")
            assert member is not None
            text = member.read().decode()
            for old, new in replaced.items():
                assert old in text, f"{name} has no {old!r}"
                text = text.replace(old, new)
            (folder / name).write_text(text)
    # Of its own, so that no other configuration is found above it.
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    report = folder / "report.xml"
    deselected = [f"--deselect={test}" for test in left_out]
    paths = [str(ROOT / "tests/wordbound/lm/genlm_alias"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--durations=10",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *deselected,
            *files,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    assert report.is_file(), done.stdout + done.stderr
    # 1: some failed.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[str, str]] = {name: {} for name in files}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314
        # A file that cannot be collected has no name of a class, and is a failure of its own.
        file = f"{case.attrib['classname']}.py" if case.attrib["classname"] else f"{case.attrib['name']}.py"
        found[file][case.attrib["name"]] = _outcome(case)
    return found


def _outcome(case: ElementTree.Element) -> str:
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return f"failed: {found.text}"
    skipped = case.find("skipped")
    return "passed" if skipped is None else f"skipped: {skipped.attrib['message']}"


def _archive() -> Path:
    """Return the source distribution, fetched if it is not there: 4 MB, and what pip builds to read its metadata."""
    file = cache_dir() / "models" / ARCHIVE
    if file.is_file():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    # In the same file system, so that the rename at the end is atomic.
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{ARCHIVE}-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--quiet"]
        done = subprocess.run(
            [*command, "--no-binary", "genlm-backend", "--dest", folder, REQUIREMENT],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"pip cannot download {REQUIREMENT}:\n{done.stderr.strip()[-800:]}"
        made = Path(folder) / ARCHIVE
        found = hashlib.sha256(made.read_bytes()).hexdigest()
        assert found == SHA256, f"{ARCHIVE}: not the file expected, its SHA-256 is {found}"
        made.replace(file)
    return file
