"""The documentation speaks of what exists, and every example of it is run or says why not."""

import html
import json
import re

import pytest
import yaml

from deployments.contract import Decoding
from deployments.offline.config import OfflineConfig
from deployments.protocol.decoding import AuthorMembers, DecodingFields, DecodingMembers
from deployments.protocol.reader import ChatRequestReader
from deployments.replica.prompt import ENGLISH
from deployments.settings.service import Settings
from tests.deployments.front import KEY, SERVED, chat_body
from tests.error_codes import codes_of_errors
from tests.pages import BLOCKS, PAGES, ROOT
from tools.docs.api import make_document
from tools.docs.examples import Block, commands
from tools.docs.settings import settings_reference

RUN_WITH_THE_SERVICE = {"console", "python", "json"}
"""By tests/e2e/test_pages.py."""

AUTHORING, DECODING = ((ROOT / "docs" / name).read_text() for name in ("authoring.md", "decoding.md"))


def test_the_life_of_a_request_passes_every_room() -> None:
    page = (ROOT / "docs" / "life-of-a-request.md").read_text()
    rooms = {
        str(path.parent.relative_to(ROOT))
        for package in ("vocab", "deployments")
        for path in (ROOT / package).glob("*/__init__.py")
    }
    unnamed = {room for room in rooms if f"`{room}/" not in page}
    # The bottom of the library, and the demo, stand beside the way.
    assert unnamed == {"vocab/arrays", "deployments/demo"}


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    path = ROOT / page
    text = path.read_text()
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|yaml|md|txt))`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert [name for name in named if not (ROOT / name).exists() and not (path.parent / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_seen(page: str) -> None:
    fences = re.findall(r"^ *```", (ROOT / page).read_text(), re.MULTILINE)
    assert len(fences) == 2 * len([block for block in BLOCKS if block.page == page])


def test_each_speed_in_the_readme_names_its_machine_and_its_date() -> None:
    readme = (ROOT / "README.md").read_text()
    speeds = [part for part in re.split(r"\n\n|\n(?=- )", readme) if re.search(r"\d (s|ms|µs|tokens/s)\b|\d%", part)]
    assert len(speeds) >= 3
    machine_and_date = re.compile(r"(?=.*(H100|cores?\b))(?=.*\d \w+ 20\d\d)", re.DOTALL)
    assert [part for part in speeds if not machine_and_date.match(part)] == []
    assert "full speed" not in readme


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_example_is_run_or_says_why_not(block: Block) -> None:
    if "not run" in block.marks:
        assert len(block.marks["not run"]) > 5
        pytest.skip(block.marks["not run"])
    if "run by" in block.marks:
        assert f'blocks_run_by(__file__, "{block.page}")' in (ROOT / block.marks["run by"]).read_text()
    elif block.language == "yaml":
        read_settings(block)
    elif block.language == "json":
        assert json.loads(block.text)
    else:
        assert block.language in RUN_WITH_THE_SERVICE
    if block.language == "console":
        assert commands(block)


def read_settings(block: Block) -> None:
    given = yaml.safe_load(block.text)
    if "offline" in block.marks:
        OfflineConfig.load(given)
    else:
        assert "settings" in block.marks
        assert Settings(**{"secret_token": KEY, **given})


def test_every_field_of_decoding_and_authoring_has_a_row() -> None:
    rows = set(re.findall(r"^\| `([\w.]+)` \|", DECODING, re.MULTILINE))
    assert {*DecodingFields.model_fields, *(f"vocab.{name}" for name in DecodingMembers.model_fields), "n"} <= rows
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", AUTHORING, re.MULTILINE))))
    assert set(AuthorMembers.model_fields) <= rows


def test_the_examples_of_decoding_ask_for_something() -> None:
    reader = ChatRequestReader(SERVED)
    plain = reader.read(chat_body(vocab={"lang": "en"}))
    asked = [reader.read(chat_body(**json.loads(block.text))) for block in BLOCKS if is_body_of_decoding(block)]
    assert len(asked) >= 4
    assert all((chat.decoding, chat.body) != (plain.decoding, plain.body) for chat in asked)
    assert plain.decoding == Decoding(hint=True)


def is_body_of_decoding(block: Block) -> bool:
    return block.page == "docs/decoding.md" and block.language == "json" and "answer" not in block.marks


def test_the_english_line_is_quoted_as_it_is() -> None:
    assert f'"{ENGLISH}"' in re.sub(r"\s+", " ", DECODING)


def test_every_code_of_an_error_is_in_a_table() -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("clients.md", "batch.md"))
    rows = "".join(re.findall(r"^\| (`[^|]*) \|", pages, re.MULTILINE))
    found = codes_of_errors()
    # One of each way to give a code.
    assert {"invalid_api_key", "engine_dead", "too_many_uploads", "storage_full", "batch_expired"} <= found
    assert found - set(re.findall(r"`(\w+)`", rows)) == set()


def test_the_search_of_the_site_finds_settings_and_routes_by_their_parts() -> None:
    separator = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["plugins"]["search"]["separator"]
    settings = re.findall(r"^### `([^`]+)`", settings_reference(), re.MULTILINE)
    assert len(settings) > 100
    assert [name for name in settings if name.rpartition(".")[2] not in re.split(separator, html.escape(name))] == []
    for path in make_document()["paths"]:
        assert set(re.findall(r"\w+", path)) <= set(re.split(separator, path))
