"""The generated references say of every setting and every route what it is."""

import re

import pytest

from deployments.settings.service import Settings
from tools.docs.api import api_reference, make_document
from tools.docs.settings import settings_reference, variables_of


@pytest.fixture(scope="module")
def settings() -> str:
    return settings_reference()


def test_every_setting_has_its_type_and_what_it_does(settings: str) -> None:
    sections = re.split(r"^### ", settings, flags=re.MULTILINE)[1:]
    names = {section.split("`")[1] for section in sections}
    assert names >= {*Settings.model_fields, "limits.max_n", "batch.limits.max_lines", "keys.<name>.use"}
    for section in sections:
        paragraphs = [part for part in section.partition("\n## ")[0].split("\n\n") if part.strip()]
        assert len(paragraphs) == 3, section


def test_a_setting_is_shown_with_bounds_default_and_variables(settings: str) -> None:
    facts = "number, above 0 · default `30.0` · `WORDBOUND_LIMITS__MAX_BODY_S`"
    assert f"### `limits.max_body_s` {{ #limits.max_body_s }}\n\n{facts}\n" in settings
    assert "default `1048576` (1 MiB)" in settings
    assert variables_of("secret_token") == ["SECRET_TOKEN", "WORDBOUND_SECRET_TOKEN"]


def test_a_variable_on_the_page_gives_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"limits.max_stop": "2", "batch.max_attempts": "7", "wordlist_dir": "/lists"}
    for key, value in given.items():
        monkeypatch.setenv(variables_of(key)[-1], value)
    settings = Settings.load({"secret_token": "of-no-service"})
    assert (settings.limits.max_stop, settings.batch.max_attempts, str(settings.wordlist_dir)) == (2, 7, "/lists")


def test_every_route_is_in_the_reference_and_every_link_has_its_object() -> None:
    page, made = api_reference(), make_document()
    for path, methods in made["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`\n" in page
    assert set(re.findall(r"\(#(object-[\w-]+)\)", page)) <= set(re.findall(r"\{ #(object-[\w-]+) \}", page))
    assert "| `n_words`<br>integer, at least 1" in page
