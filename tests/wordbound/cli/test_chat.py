"""``wordbound chat`` keeps what was said, does as its commands say, and shows how frequent words are."""

import fcntl
import io
import os
import pty
import select
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from tests.wordbound.cli.conftest import PIECES, Run, StandInService, assert_refused
from vocab.errors import UnknownLanguageError
from wordbound.cli.asking import WordListOptions, connect
from wordbound.cli.chat import BANDS, RankPainter, Talk, legend
from wordbound.cli.commands import DONE, INTERRUPTED, NO_SERVICE, WRONG_INPUT, InputError
from wordbound.errors import RefusedError, ServiceError

TEXT = "".join(PIECES)
EN = ("--lang", "en", "--words", "1000")


def test_what_was_said_goes_along_until_a_new_talk(stand_in: StandInService, run: Run) -> None:
    done = run("chat", *EN, "--max-tokens", "50", text="Hello.\n\nAnd then?\n/new\nWho?\n/quit\nnever\n")
    assert (done.exit_code, done.stdout) == (DONE, f"{TEXT}\n" * 3)
    first, second, third = [call.body["messages"] for call in stand_in.backend.calls]
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": TEXT}]
    assert first[-1:] == said[:1]
    assert second[-3:] == [*said, {"role": "user", "content": "And then?"}]
    assert third[-1] == {"role": "user", "content": "Who?"}
    assert len(third) == len(first)
    assert stand_in.body["max_tokens"] == 50


def test_the_number_of_words_can_be_changed(stand_in: StandInService, run: Run) -> None:
    assert run("chat", *EN, "--quality", "better", text="Hello.\n/words 50\nHello.\n").exit_code == DONE
    vocabularies = [call.vocabulary.n_words for call in stand_in.backend.calls if call.vocabulary]
    assert vocabularies == [1000, 50]
    assert [call.decoding.search_width for call in stand_in.backend.calls] == [4, 4]


@pytest.mark.parametrize("line", ["/words", "/words many", "/words 0", "/words " + "9" * 5_000, "/wrods 5"])
def test_a_wrong_command_of_a_script_ends_it(line: str, stand_in: StandInService, run: Run) -> None:
    assert_refused(run("chat", *EN, text=f"{line}\n"), WRONG_INPUT, "/words")


def test_a_script_ends_where_the_service_fails(stand_in: StandInService, run: Run) -> None:
    assert run("chat", *EN, text="please refuse\nHello.\n").exit_code == WRONG_INPUT
    assert run("chat", *EN, text="please fail\nHello.\n").exit_code == NO_SERVICE
    assert run("chat", *EN, text=b"\xff\n").exit_code == WRONG_INPUT
    assert_refused(run("chat"), WRONG_INPUT, "name a list")


def test_what_was_said_stays_where_an_answer_fails(stand_in: StandInService) -> None:
    with connect(stand_in.url) as service:
        talk = Talk(service, WordListOptions("en", 1000), {})
        assert not talk.handle_line("Hello.")
        for wish, kind in (("please fail", ServiceError), ("please refuse", RefusedError), ("/words 0", InputError)):
            with pytest.raises(kind):
                talk.handle_line(wish)
        assert [turn["content"] for turn in talk.said] == ["Hello.", TEXT]
        assert talk.handle_line("/quit")


class Terminal:
    """The program at a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._mine, theirs = pty.openpty()
        command = [sys.executable, "-m", "wordbound", *arguments]
        # A session with this terminal, for Ctrl-C to reach it.
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
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


def test_at_a_terminal_errors_do_not_end_the_talk_and_ranks_are_shown(stand_in: StandInService) -> None:
    stand_in.backend.pieces = ("The elep", "hant was happy.")
    terminal = Terminal("chat", "--lang", "en", "--words", "20000")
    terminal.wait_for("/quit: end")
    terminal.type("please refuse\n")
    terminal.wait_for("Too long.")
    terminal.type("Hello.\n")
    terminal.wait_for("elephant⁴")
    terminal.wait_for("the rarest has rank 943")
    terminal.type("please stall later\n")
    terminal.wait_for("one")
    terminal.type("\x03")
    terminal.wait_for("> ")
    terminal.type("\x04")
    assert terminal.status() == DONE


def test_ctrl_c_at_the_prompt_ends_as_shells_have_it(stand_in: StandInService) -> None:
    terminal = Terminal("chat", *EN, "--plain")
    terminal.wait_for("> ")
    assert terminal.status(typing="\x03") == INTERRUPTED


def painted(painter: RankPainter, *pieces: str) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system="standard", highlight=False)
    for piece in pieces:
        console.print(painter.paint(piece), end="", soft_wrap=True)
    console.print(painter.rest(), end="", soft_wrap=True)
    return output.getvalue()


def test_each_word_has_a_colour_and_a_mark_of_its_band(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    letters = "abcdefghij"
    words = ["".join(letters[int(digit)] for digit in f"{number:05}") for number in range(1, 6001)]
    path.write_text("\n".join(words))
    painter = RankPainter.of(None, path, None, ["Tom"])
    text = f"{words[499]} {words[500]} {words[1999]} {words[4999]} {words[5000]} Tom 12."
    marks = [f"\x1b[36m{words[500]}¹\x1b[0m", f"\x1b[32m{words[1999]}²\x1b[0m", f"\x1b[33m{words[4999]}³\x1b[0m"]
    expected = " ".join([words[499], *marks, f"\x1b[35m{words[5000]}⁴\x1b[0m", "\x1b[4mTom⁺\x1b[0m", "12."])
    assert painted(painter, text) == expected
    # However the text is cut into pieces.
    assert painted(painter, *text) == expected


def test_every_band_but_the_first_has_a_mark_of_its_own() -> None:
    assert len({band.mark for band in BANDS}) == len({band.style for band in BANDS}) == len(BANDS)
    assert ", ".join(legend()).startswith("no mark 1 to 500, ¹ 501 to 1,000, ")


def test_a_list_that_only_the_service_has_is_shown_without_ranks(
    stand_in: StandInService, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownLanguageError):
        RankPainter.of("en-school", None, None, [])
    with connect(stand_in.url) as service:
        talk = Talk(service, WordListOptions("en-school", 1000), {}, shows_ranks=True)
        talk.handle_line("Hello.")
    output = capsys.readouterr()
    assert output.out == f"{TEXT}\n"
    assert "this machine has no list 'en-school'" in output.err


def test_ranks_are_shown_as_an_answer_grows(stand_in: StandInService, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.backend.pieces = ("The elep", "hant was", " happy.")
    with connect(stand_in.url) as service:
        Talk(service, WordListOptions("en", 20_000), {}, shows_ranks=True).handle_line("Hello.")
    output = capsys.readouterr()
    assert "elephant⁴ was" in output.out or "elephant³ was" in output.out
    assert output.err.startswith("ranks: no mark 1 to 500")
