"""Each command is imported when it is run, and every error of one is a line that ends it with a known status."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import wordbound
from tests.pages import ROOT
from tests.wordbound.cli.conftest import StandInService, assert_refused, closed_port, run
from wordbound.cli import COMMANDS, DONE, INTERRUPTED, NO_SERVICE, WRONG_INPUT

HEAVY = ("numba", "numpy", "simplemma", "tokenizers", "httpx2", "rich", "vocab")
"""What the help of all commands has no use for."""
WRITE = ("write", "Go", "--lang", "en", "--words", "1000")

FILES = {
    "story.txt": b"The cat sat.",
    "latin.txt": b"\xc3\xa9t\xe9",
    "empty.txt": b"",
    "notes.txt": b"# nothing\n",
    "blank.txt": b" \n",
    "binary.docx": b"PK\x03\x04\xff\xfe",
    "bad.txt": b"ok\n\xff\n",
    "list.txt": b"l'\nhomme\n",
    "names.txt": "Éluard\nNew York\n".encode(),
    "schema.json": b'{"type": "string"}',
    "published.csv": b"headword,pos,CEFR\nthe,x,A1\ncat,x,A1\nsat,x,B2\n",
}

WRONG: list[tuple[str, str]] = [
    ("check none.txt --lang en", "none.txt: No such file or directory"),
    ("check binary.docx --lang en", "binary.docx: the file is damaged; save it anew, or as plain text"),
    ("check latin.txt --lang en", "latin.txt: line 1: not UTF-8"),
    ("check empty.txt --lang en", "empty.txt: the file is empty"),
    ("check story.txt --lang xx", "There is no word list 'xx'"),
    ("check story.txt --list none.txt", "none.txt: No such file or directory"),
    ("check story.txt", "name a list: --lang TAG or --list FILE"),
    ("check story.txt --lang en --json --csv", "choose one of --json, --csv and --html"),
    ("check story.txt --lang es --segmentation any", "is for languages without spaces"),
    ("check story.txt --lang es --possessive", "--possessive is for English"),
    ("grammar --list list.txt --possessive", "name the language by --lang en"),
    ("check story.txt --lang zh --readings --csv", "--readings goes with --json or --html"),
    ("check story.txt --lang th --readings", "'th' have no readings"),
    ("check story.txt --lang en --schema schema.json --csv", "--schema goes with --json"),
    ("check story.txt --list list.txt --prompt-words map", "needs the language of --list: add --lang"),
    ("check story.txt --lang en --schema story.txt", "story.txt: it is no JSON"),
    ("check story.txt --lang en --schema schema.json", "story.txt: "),
    ("check story.txt --level A9", "There is no level 'A9'"),
    ("check story.txt --level top-500", "name that by 'lang'"),
    ("check story.txt --level A1 --list story.txt", "choose one of --list and --level"),
    ("check story.txt --lang en --level top-500 --words 5", "choose one of --words and --level"),
    ("check story.txt --level A1 --unit lemma", "choose one of --unit and --level"),
    ("check --lang en", "FILE"),
    ("grammar --list list.txt --lang zh --extra-words names.txt", "names.txt, line 2: 'New York' has a blank"),
    ("grammar --list list.txt --unit lemma", "There are no lemmas for 'und'"),
    ("grammar --lang es --words 1 -o no/such/folder", "no/such/folder: No such file or directory"),
    ("grammar", "name a list: --lang TAG or --list FILE (see wordbound grammar --help)"),
    ("grammar --lang es --words 0", "'--words': Input should be greater than or equal to 1"),
    ("grammar --lang es --case upper", "'upper' is not one of 'auto', 'sentence'"),
    ("levels --import published.csv", "--import needs --family"),
    ("levels --import published.csv --family kelly", "needs --lang"),
    ("levels --import story.txt --family cefr-j", "story.txt: it has no levels"),
    ("words en --readings", "no readings"),
    ("compile en", "--model"),
    ("compile xx --model m", "There is no word list 'xx'"),
    ("key", "say whose key it is: wordbound key alice"),
    ("key Alice", "a name has 1 to 64 small letters"),
    ("key default", "SECRET_TOKEN"),
    (f"key alice --verify {'0' * 64}", "give either NAME"),
    ("key --verify 0", "64 hexadecimal digits"),
    (f"key --verify {'0' * 64}", "no key on standard input"),
    ("write Go", "name a list: --lang TAG or --list FILE"),
    ("write Go --lang en --words 9 --level A2", "--level says which words count"),
    ("write --lang en", 'say what to write: wordbound write "A story about a dog"'),
    ("write '' --lang en", "there is nothing in PROMPT"),
    ("write - --lang en", "standard input: there is no text"),
    ("write Go --lang en --must-use sea:x", "WORD or WORD:COUNT"),
    ("write Go --lang en --must-use :2", "WORD or WORD:COUNT"),
    # Python reads no number of more than 4,300 digits.
    (f"write Go --lang en --must-use sea:{'9' * 5_000}", "WORD or WORD:COUNT"),
    *(
        (f"write Go --lang en --new-words={number}", "N:PER_100:MAX")
        for number in ("many", "", "0", "3000:", "3000:2:10:1", "-5", "3000:nan", "3000:2:0.5")
    ),
    ("write Go --lang en --any-form", "about the words of --must-use"),
    ("write Go --lang en --new-words-file new.txt", "add it, such as --new-words 3000:2:10"),
    ("write Go --lang en --glossary", "add it, such as --new-words 3000:2:10"),
    ("write Go --list notes.txt", "There is no word in notes.txt"),
    ("write Go --list bad.txt", "bad.txt, line 2"),
    ("write --brief /nothing/brief.txt --lang en", "/nothing/brief.txt: No such file or directory"),
    ("write --brief latin.txt --lang en", "not a text in UTF-8"),
    ("write Go --lang en --out /nothing/story.txt", "/nothing/story.txt: No such file or directory"),
    ("write Go --lang en --new-words 9 --new-words-file /nothing/a", "/nothing/a: No such file or directory"),
    ("write Go --lang en --quality best", "'best' is not one of"),
    ("write Go --lang en --url ' '", "WORDBOUND_URL must be an address"),
    ("rewrite /nothing/story.txt --lang en", "/nothing/story.txt: No such file"),
    ("exercises - --lang en", "there is no text"),
    ("exercises story.txt --lang en --out sheet.pdf", "--out must end in .txt"),
]
"""A command line, and what the one line says that it ends with; none of them asks a service for anything."""

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
    print("httpx2" in sys.modules, *ours, file=sys.stderr)
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


def test_a_check_enters_few_files() -> None:
    command = [sys.executable, "-c", ENTERED, "check", "-", "--lang", "en", "--words", "1000"]
    for text, most in (("The dog was happy.", 23), ("The dog was euphoric.", 25)):
        done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
        assert done.stdout.startswith("-: 4 words"), done.stderr
        has_http, *entered = done.stderr.split()
        assert (has_http, len(entered) <= most) == ("False", True), entered


def test_each_command_has_a_help_that_begins_as_the_list_of_commands_says() -> None:
    for name, command in COMMANDS.items():
        done = run(name, "--help")
        assert done.exit_code == DONE, done.output
        assert command.help.rstrip(".") in " ".join(done.output.split())
        assert run(name, "-h").output == done.output


def test_wrong_use_and_wrong_input_are_told_in_one_line(
    stand_in: StandInService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODEL_NAME", raising=False)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    wrong = []
    for line, message in WRONG:
        done = run(*shlex.split(line), text="" if " - " in line else None)
        is_told = (done.exit_code, done.stdout, done.stderr.count("\n")) == (WRONG_INPUT, "", 1)
        is_told = is_told and done.stderr.startswith(f"wordbound {line.split()[0]}: ")
        if not is_told or message not in done.stderr:
            wrong.append((line[:80], message, done.exit_code, done.output))
    assert wrong == []
    assert stand_in.backend.calls == []


def test_an_error_without_an_explanation_has_its_traceback_and_ctrl_c_the_status_of_shells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in (OSError(28, "No space left on device"), ZeroDivisionError(), KeyboardInterrupt()):

        def fail(error: BaseException = error) -> int:
            raise error

        monkeypatch.setattr("os.cpu_count", fail)
        done = run("doctor")
        assert done.exception is error or (type(error), done.exit_code) == (KeyboardInterrupt, INTERRUPTED)


def test_an_unknown_command_is_told_with_those_that_there_are_and_the_version_is_that_of_the_package() -> None:
    done = run("chekc")
    known = f"wordbound: there is no command 'chekc': choose {', '.join(COMMANDS)} (see wordbound --help)\n"
    assert (done.exit_code, done.stdout, done.stderr) == (WRONG_INPUT, "", known)
    assert run("--version").output == f"{wordbound.__version__}\n"


def test_the_key_and_the_address_are_those_of_the_service(
    stand_in: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A service of this machine is not asked through a proxy, and an address may end with /v1.
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    assert run(*WRITE, "--url", f"{stand_in.url}/v1/").exit_code == DONE
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    assert_refused(run(*WRITE), NO_SERVICE, "does not know this key: set WORDBOUND_API_KEY")
