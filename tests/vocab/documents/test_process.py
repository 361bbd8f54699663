"""A process that reads files has no environment, no modules but its own, and limits at which it ends."""

import re
import signal
import subprocess
import time
from pathlib import Path

from tests.vocab.documents.books import HOSTILE, STORY, docx, slow_pdf
from vocab.documents import text_of
from vocab.documents.process import REFUSED, command


def read(data: bytes, *, max_cpu_s: float = 5, max_bytes: int = 2**21, cwd: Path = Path("/")) -> tuple[int, float, str]:
    """The exit status, the processor time and what was said."""
    asked = command("a", max_cpu_s, max_bytes)
    done = subprocess.run(asked, input=data, capture_output=True, env={}, cwd=cwd, timeout=60)
    used, _, said = done.stdout.decode().partition("\n")
    return done.returncode, float(used or "nan"), said


def test_the_text_comes_after_the_processor_time() -> None:
    status, used_s, text = read(docx(STORY))
    assert (status, text) == (0, text_of(docx(STORY), "a"))
    assert 0 < used_s < 5


def test_a_file_that_its_reader_fails_at_is_refused_in_a_fixed_text() -> None:
    for name, make in HOSTILE.items():
        status, _, said = read(make())
        refused = (REFUSED, "the file is damaged; save it anew, or as plain text")
        assert status == 0 or (status, said) == refused, name


def test_too_long_a_text_is_refused_before_it_is_sent() -> None:
    assert read(b"x" * 1_001, max_bytes=1_000)[::2] == (
        REFUSED,
        "it has more than 1,000 bytes of text; send a part of it",
    )


def test_a_file_that_takes_too_long_ends_with_its_processor_time() -> None:
    assert read(slow_pdf(), max_cpu_s=1)[0] == -signal.SIGXCPU


def test_neither_variables_nor_the_working_folder_have_a_say(tmp_path: Path) -> None:
    for name in ("zipfile.py", "vocab.py"):
        (tmp_path / name).write_text("raise SystemExit(9)\n")
    asked = command("a", 5, 2**20)
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "vocab.py")}
    done = subprocess.run(asked, input=b"one", capture_output=True, env=environment, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout.partition(b"\n")[2], done.stderr) == (0, b"one", b"")


def test_its_limits_are_in_force_before_it_reads() -> None:
    asked = command("a", 7, 2**20)
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as process:
        limits = Path(f"/proc/{process.pid}/limits")

        def soft(name: str) -> str:
            match = re.search(rf"^{name} +(\S+)", limits.read_text(), re.MULTILINE)
            assert match
            return match[1]

        # The last one that is set.
        for _ in range(2_000):
            if soft("Max cpu time") == "7":
                break
            time.sleep(0.01)
        names = ("cpu time", "address space", "file size", "core file size", "open files", "processes")
        assert [soft(f"Max {name}") for name in names] == ["7", str(2 * 2**30), "0", "0", "32", "0"]
        assert Path(f"/proc/{process.pid}/environ").read_bytes() == b""
        assert process.communicate(b"one")[0].endswith(b"\none")
    assert process.returncode == 0
