"""The notices that others' licences ask for: written once, and shipped."""

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = (
    "LICENSE",
    "NOTICE",
    "deployments/page/static/LICENSES.txt",
    "deployments/protocol/swagger_ui/LICENSE",
    "deployments/protocol/swagger_ui/NOTICE",
    "deployments/protocol/swagger_ui/swagger-ui-bundle.js.LICENSE.txt",
    "vocab/lists/data/LICENSE",
    "vocab/lists/data/NOTICE",
)


def _description(package: str) -> str:
    # What follows the headers of the metadata: the page of the package.
    return (metadata.distribution(package).read_text("METADATA") or "").partition("\n\n")[2]


@pytest.fixture(scope="module")
def notice() -> str:
    # As one line: how it is wrapped does not matter.
    return " ".join((ROOT / "NOTICE").read_text(encoding="utf-8").split())


def test_every_source_that_wordfreq_asks_to_credit_is_in_the_notice(notice: str) -> None:
    asked = " ".join(_description("wordfreq").split())
    for credit in (
        "https://creativecommons.org/licenses/by-sa/4.0/",
        "http://books.google.com/ngrams",
        "http://commondatastorage.googleapis.com/books/syntactic-ngrams/index.html",
        "http://corpus.leeds.ac.uk/list.html",
        "http://www.wikipedia.org",
        "https://paracrawl.eu",
        "http://opus.nlpl.eu/OpenSubtitles.php",
        "http://www.opensubtitles.org/",
        "created by Marc Brysbaert et al.",
        "http://crr.ugent.be/programs-data/subtitle-frequencies",
        "SUBTLEX-US",
        "SUBTLEX-UK",
        "SUBTLEX-CH",
        "SUBTLEX-DE",
        "SUBTLEX-NL",
        "Brysbaert, M. & New, B. (2009)",
        "Brysbaert, M., Buchmeier, M., Conrad, M., Jacobs, A.M., Bölte, J., & Böhl, A. (2011)",
        "Cai, Q., & Brysbaert, M. (2010)",
        "Keuleers, E., Brysbaert, M. & New, B. (2010)",
        "van Heuven, W. J., Mandera, P., Keuleers, E., & Brysbaert, M. (2014)",
    ):
        assert credit in asked, "wordfreq asks for it no longer: read its README again"
        assert credit in notice
    assert "Robyn Speer" in notice
    assert "SUBTLEX is freely available data" in notice


def test_every_dictionary_that_simplemma_names_is_in_the_notice(notice: str) -> None:
    asked = _description("simplemma")
    for credit in (
        "https://github.com/michmech/lemmatization-lists",
        "https://kaikki.org/",
        "https://github.com/TALP-UPC/FreeLing",
        "https://github.com/explosion/spacy-lookups-data",
        "https://unimorph.github.io/",
        "https://github.com/lenakmeth/Wikinflection-Corpus",
    ):
        assert credit in asked
        assert credit in notice


def test_the_licences_of_what_the_page_is_built_from_are_with_it() -> None:
    shipped = (ROOT / "deployments/page/static/LICENSES.txt").read_text(encoding="utf-8")
    asked = json.loads((ROOT / "page/package.json").read_text(encoding="utf-8"))["dependencies"]
    assert asked.keys() <= set(shipped.splitlines())
    assert "SIL Open Font License" in shipped


def test_a_wheel_carries_all_notices(tmp_path: Path) -> None:
    # Of a copy with no code in it: building would write into the checkout, and the licences do not hang on the code.
    project = tmp_path / "project"
    for name in ("pyproject.toml", "README.md", *SHIPPED):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        folder = next(name for name in archive.namelist() if name.endswith("/METADATA")).removesuffix("METADATA")
        for name in SHIPPED:
            assert archive.read(f"{folder}licenses/{name}") == (ROOT / name).read_bytes()
