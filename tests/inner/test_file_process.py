"""A process that reads files has no environment, no modules but its own, and limits at which it ends."""

import re
import signal
import subprocess
import time
from pathlib import Path

from deployments.ingress.file_process import command
from tests.vocab.documents.books import slow_pdf


def test_a_file_that_takes_too_long_ends_with_its_processor_time() -> None:
    done = subprocess.run(command("a", 1, 2**21), input=slow_pdf(), capture_output=True, env={}, timeout=60)
    assert done.returncode == -signal.SIGXCPU


def test_neither_variables_nor_the_working_folder_have_a_say(tmp_path: Path) -> None:
    for name in ("zipfile.py", "vocab.py", "deployments.py"):
        (tmp_path / name).write_text("raise SystemExit(9)\n")
    asked = command("a", 5, 2**20)
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "vocab.py")}
    done = subprocess.run(asked, input=b"one", capture_output=True, env=environment, cwd=tmp_path, timeout=60)
    used_s, _, text = done.stdout.partition(b"\n")
    assert (done.returncode, text, done.stderr) == (0, b"one", b"")
    assert 0 < float(used_s) < 5


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
