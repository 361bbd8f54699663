"""``wordbound chat`` keeps what was said, does as its commands say, and shows how frequent words are."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from contextlib import suppress

from tests.wordbound.cli.conftest import PIECES, StandInService, assert_refused, run
from vocab.lists.wordlists import load_word_list
from wordbound.cli import DONE, INTERRUPTED, NO_SERVICE, WRONG_INPUT

TEXT = "".join(PIECES)
EN = ("--lang", "en", "--words", "1000")


def test_what_was_said_goes_along_until_a_new_talk(stand_in: StandInService) -> None:
    said = "Hello.\n\nAnd then?\n/new\n/words 50\nWho?\n/quit\nnever\n"
    done = run("chat", *EN, "--max-tokens", "50", "--quality", "better", text=said)
    assert (done.exit_code, done.stdout) == (DONE, f"{TEXT}\n" * 3)
    first, second, third = [call.body["messages"] for call in stand_in.backend.calls]
    talk = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": TEXT}]
    assert first[-1:] == talk[:1]
    assert second[-3:] == [*talk, {"role": "user", "content": "And then?"}]
    assert third[-1] == {"role": "user", "content": "Who?"}
    assert len(third) == len(first)
    assert stand_in.body["max_tokens"] == 50
    vocabularies = [call.vocabulary.n_words for call in stand_in.backend.calls if call.vocabulary]
    assert vocabularies == [1000, 1000, 50]
    assert {call.decoding.search_width for call in stand_in.backend.calls} == {4}


def test_a_script_ends_at_a_wrong_command_and_where_the_service_fails(stand_in: StandInService) -> None:
    for line in ("/words", "/words many", "/words 0", "/words " + "9" * 5_000, "/wrods 5"):
        assert_refused(run("chat", *EN, text=f"{line}\n"), WRONG_INPUT, "/words")
    assert run("chat", *EN, text="please refuse\nHello.\n").exit_code == WRONG_INPUT
    assert run("chat", *EN, text="please fail\nHello.\n").exit_code == NO_SERVICE
    assert run("chat", *EN, text=b"\xff\n").exit_code == WRONG_INPUT


class Terminal:
    """The program at a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._mine, theirs = pty.openpty()
        command = [sys.executable, "-m", "wordbound", *arguments]
        # A session with this terminal, for Ctrl-C to reach it.
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )  # fmt: skip
        os.close(theirs)
        self._shown = b""

    def wait_for(self, text: str) -> None:
        """Waits until ``text`` is shown behind what was waited for before."""
        while text.encode() not in self._shown:
            readable, _, _ = select.select([self._mine], [], [], 60)
            assert readable, self._shown
            self._shown += os.read(self._mine, 4096)
        self._shown = self._shown.partition(text.encode())[2]

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def status(self, typing: str = "") -> int:
        """Types until the program ends: Python's readline may lose a key that comes while it begins to wait."""
        for _ in range(60):
            self.type(typing)
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(1)
                os.close(self._mine)
                return status
        raise AssertionError("the program did not end")


def test_at_a_terminal_errors_do_not_end_the_talk(stand_in: StandInService) -> None:
    terminal = Terminal("chat", *EN, "--plain")
    terminal.wait_for("/quit: end")
    terminal.type("Hello.\n")
    terminal.wait_for(TEXT)
    for line, shown in (
        ("please refuse", "Too long."),
        ("please fail", "The server failed"),
        ("/words 0", "such as /words 2000"),
        ("/nwe", "there is no /nwe; /words N"),
        ("And then?", TEXT),
    ):
        terminal.type(f"{line}\n")
        terminal.wait_for(shown)
    # What was said stays.
    assert [turn["content"] for turn in stand_in.body["messages"][-3:]] == ["Hello.", TEXT, "And then?"]
    terminal.type("please stall later\n")
    terminal.wait_for("one")
    terminal.type("\x03")
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.status() == DONE


def test_ctrl_c_at_the_prompt_ends_as_shells_have_it(stand_in: StandInService) -> None:
    terminal = Terminal("chat", "--lang", "en-school", "--words", "1000")
    terminal.wait_for("no ranks are shown, for this machine has no list 'en-school', only the service")
    terminal.wait_for("> ")
    assert terminal.status(typing="\x03") == INTERRUPTED


def test_each_word_has_a_colour_and_a_mark_of_its_band(stand_in: StandInService) -> None:
    words = load_word_list("en", None).words
    # The last words of each band, and the first one of the last.
    first, second, third, fourth, fifth = (
        next(word for word in found if word.isalpha() and word.islower())
        for found in (*(words[rank - 1 :: -1] for rank in (500, 1000, 2000, 5000)), words[5000:])
    )
    text = f"{first} {second} {third} {fourth} {fifth} Zoltanka 12."
    marks = [f"\x1b[36m{second}¹\x1b[0m", f"\x1b[32m{third}²\x1b[0m", f"\x1b[33m{fourth}³\x1b[0m"]
    shown = " ".join([first, *marks, f"\x1b[35m{fifth}⁴\x1b[0m", "\x1b[4mZoltanka⁺\x1b[0m", "12."])
    terminal = Terminal("chat", "--lang", "en", "--words", "20000", "--names", "Zoltanka")
    terminal.wait_for(
        "ranks: no mark 1 to 500, ¹ 501 to 1,000, ² 1,001 to 2,000, ³ 2,001 to 5,000, ⁴ from 5,001, ⁺ added"
    )
    # However the text is cut into pieces.
    for pieces in ((text,), tuple(text)):
        stand_in.backend.pieces = pieces
        terminal.type("Hello.\n")
        terminal.wait_for(shown)
    terminal.type("/quit\n")
    assert terminal.status() == DONE
