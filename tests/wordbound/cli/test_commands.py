"""Each command is imported when it is run, and every error of one is a line that ends it with a known status."""

import subprocess
import sys
from pathlib import Path

import pytest

import wordbound
from tests.wordbound.cli.conftest import Run, StandInService, assert_refused, closed_port
from wordbound.cli import COMMANDS, DONE, INTERRUPTED, NO_SERVICE, WRONG_INPUT

HEAVY = ("numba", "numpy", "wordfreq", "simplemma", "tokenizers", "httpx", "rich", "vocab")
"""What the help of all commands has no use for."""
WRITE = ("write", "Go", "--lang", "en", "--words", "1000")

ENTERED = """
import os, sys
root, entered = os.getcwd() + os.sep, set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        entered.add(frame.f_code.co_filename.removeprefix(root))
sys.setprofile(note)
from wordbound.cli import main
try: main()
finally:
    sys.setprofile(None)
    ours = sorted(file for file in entered if file.split(os.sep)[0] in ("vocab", "wordbound", "deployments"))
    print("httpx" in sys.modules, *ours, file=sys.stderr)
"""


def test_the_help_of_all_commands_imports_none_of_them() -> None:
    program = (
        "import sys\nfrom wordbound.cli import app\n"
        "try: app(['--help'])\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert [name for name in COMMANDS if f"\n  {name}" not in done.stdout] == []


@pytest.mark.parametrize(("text", "most"), [("The dog was happy.", 20), ("The dog was euphoric.", 22)])
def test_a_check_enters_few_files(text: str, most: int) -> None:
    command = ["check", "-", "--lang", "en", "--words", "1000"]
    done = subprocess.run(
        [sys.executable, "-c", ENTERED, *command],
        cwd=Path(wordbound.__file__).parents[1],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("-: 4 words"), done.stderr
    has_http, *entered = done.stderr.split()
    assert (has_http, len(entered) <= most) == ("False", True), entered


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help_that_begins_as_the_list_of_commands_says(name: str, run: Run) -> None:
    done = run(name, "--help")
    assert done.exit_code == DONE, done.output
    assert COMMANDS[name].help.rstrip(".") in " ".join(done.output.split())
    assert run(name, "-h").output == done.output


def test_an_error_without_an_explanation_has_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError(28, "No space left on device"), ZeroDivisionError()):

        def fail(error: Exception = error) -> int:
            raise error

        monkeypatch.setattr("os.cpu_count", fail)
        assert run("doctor").exception is error


def test_an_unknown_command_is_told_with_those_that_there_are(run: Run) -> None:
    done = run("chekc")
    known = f"wordbound: there is no command 'chekc': choose {', '.join(COMMANDS)} (see wordbound --help)\n"
    assert (done.exit_code, done.stdout, done.stderr) == (WRONG_INPUT, "", known)


def test_an_interrupted_command_ends_as_shells_have_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.cpu_count", interrupt)
    assert run("doctor").exit_code == INTERRUPTED


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").output == f"{wordbound.__version__}\n"
    with pytest.raises(AttributeError):
        _ = wordbound.nothing


def test_where_no_service_is_the_line_says_how_to_start_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("WORDBOUND_URL", url)
    message = f"wordbound write: no service answers at {url}: start one with `wordbound demo` or set WORDBOUND_URL\n"
    done = run(*WRITE)
    assert (done.exit_code, done.stderr) == (NO_SERVICE, message)


def test_a_wrong_key_says_which_variable_holds_it(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    assert_refused(run(*WRITE), NO_SERVICE, "does not know this key: set WORDBOUND_API_KEY")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:many"])
def test_a_wrong_address_is_wrong_use(url: str, run: Run) -> None:
    assert_refused(run(*WRITE, "--url", url or " "), WRONG_INPUT, "WORDBOUND_URL must be an address")


def test_a_service_of_this_machine_is_not_asked_through_a_proxy(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    # An address may end with /v1.
    assert run(*WRITE, "--url", f"{stand_in.url}/v1/").exit_code == DONE
