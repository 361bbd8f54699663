"""Each command is imported when it is run, and every error of one is a line that ends it with a known status."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import wordbound
from wordbound.cli import app, commands
from wordbound.cli.commands import COMMANDS, NO_SERVICE, WRONG_INPUT, InputError
from wordbound.errors import RefusedError, ServiceError

HEAVY = ("numba", "numpy", "wordfreq", "simplemma", "tokenizers", "httpx", "rich", "vocab")
"""What the help of all commands has no use for."""


def test_the_help_of_all_commands_imports_none_of_them() -> None:
    program = (
        "import sys\nfrom wordbound.cli import app\n"
        "try: app(['--help'])\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert [name for name in COMMANDS if f"\n  {name}" not in done.stdout] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help_that_begins_as_the_list_of_commands_says(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, done.output
    result = " ".join(done.output.split())
    assert COMMANDS[name].help.rstrip(".") in result


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("name a file"), WRONG_INPUT),
        (RefusedError("'n' must be at least 1."), WRONG_INPUT),
        (ServiceError("no service answers"), NO_SERVICE),
    ],
)
def test_an_error_of_a_command_is_one_line_and_its_status(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("wordbound.cli.doctor.findings", fail)
    done = CliRunner().invoke(app, ["doctor"])
    assert (done.exit_code, done.stdout, done.stderr) == (status, "", f"wordbound doctor: {error}\n")


def test_an_unknown_command_is_told_with_those_that_there_are() -> None:
    done = CliRunner().invoke(app, ["chekc"])
    assert done.exit_code == commands.WRONG_INPUT
    assert done.stderr.count("\n") == 1
    assert f"there is no command 'chekc': choose {', '.join(COMMANDS)} " in done.stderr


def test_an_interrupted_command_ends_as_shells_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wordbound.cli.doctor.findings", interrupt)
    assert CliRunner().invoke(app, ["doctor"]).exit_code == commands.INTERRUPTED


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"{wordbound.__version__}\n"
    with pytest.raises(AttributeError):
        _ = wordbound.nothing
