"""``make release VERSION=0.1.0``: all that a release is, from one number. It commits, tags and publishes nothing.

"Unreleased" in the changelog becomes the entry of the version, ``dist/`` has the sdist, the wheel and an SBOM of each
lock (CycloneDX), and the image gets the version as its tag.
"""

import os
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Final

from tools.pins import LOCKS, TORCH
from tools.wheel import ROOT, build, environment, step

CHANGELOG: Final = ROOT / "CHANGELOG.md"


def release_entry(changelog: str, version: str, day: date) -> str:
    """Return the changelog with the entry of a version, which has all that was unreleased.

    Raises:
        SystemExit: The version is no release's, or has an entry.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"{version or 'nothing'} is no version of a release: make release VERSION=0.1.0")
    if f"\n## {version} " in changelog:
        raise SystemExit(f"CHANGELOG.md has {version} already: restore it, or name another version")
    entry = f"## {version} ({day.day} {day:%B %Y})"
    return changelog.replace("\n## Unreleased\n", f"\n## Unreleased\n\n{entry}\n", 1)


def main(version: str) -> None:
    changelog = release_entry(CHANGELOG.read_text(encoding="utf-8"), version, date.today())
    git = ["git", "status", "--porcelain"]
    if changed := subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout:
        raise SystemExit(f"commit what is changed, or remove it, before a release:\n{changed}")
    CHANGELOG.write_text(changelog, encoding="utf-8")
    os.environ["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_WORDBOUND"] = version
    with tempfile.TemporaryDirectory(prefix="release") as name:
        build(Path(name))
        cyclonedx = str(environment(Path(name, "sbom"), "cyclonedx-bom") / "cyclonedx-py")
        for lock in LOCKS:
            pins, sbom = Path(name, "pins.txt"), f"dist/wordbound-{version}-{Path(lock.file).stem}.cdx.json"
            torch = f"torch=={TORCH}\n" if "torch" in lock.left_out else ""
            pins.write_text((ROOT / lock.file).read_text(encoding="utf-8") + torch, encoding="utf-8")
            step(sbom, [cyclonedx, "requirements", str(pins), "--output-file", sbom], ROOT)
    step("image", ["make", "image", f"VERSION={version}"], ROOT)
    print(f"made dist/ and wordbound:{version}-cpu; next: git commit -am 'Release {version}' && git tag v{version}")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
