"""What commands ask a service with: where it is not, and where it refuses the key, a line says what to change."""

import pytest

from tests.wordbound.cli.conftest import Run, StandInService, assert_refused, closed_port
from wordbound.cli.commands import NO_SERVICE, WRONG_INPUT

EN = ("--lang", "en", "--words", "1000")


def test_where_no_service_is_the_line_says_how_to_start_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("WORDBOUND_URL", url)
    message = f"wordbound write: no service answers at {url}: start one with `wordbound demo` or set WORDBOUND_URL\n"
    done = run("write", "Go", *EN)
    assert (done.exit_code, done.stderr) == (NO_SERVICE, message)


def test_a_wrong_key_says_which_variable_holds_it(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    assert_refused(run("write", "Go", *EN), NO_SERVICE, "does not know this key: set WORDBOUND_API_KEY")


def test_an_address_may_end_with_v1(stand_in: StandInService, run: Run) -> None:
    assert run("write", "Go", *EN, "--url", f"{stand_in.url}/v1/").exit_code == 0


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:many"])
def test_a_wrong_address_is_wrong_use(url: str, run: Run) -> None:
    assert_refused(run("write", "Go", *EN, "--url", url or " "), WRONG_INPUT, "WORDBOUND_URL must be an address")


def test_a_service_of_this_machine_is_not_asked_through_a_proxy(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    assert run("write", "Go", *EN).exit_code == 0
