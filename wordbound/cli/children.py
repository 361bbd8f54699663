"""Programs that commands start: what belongs to the service runs in a process of its own, never in this one."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Final

import typer

from wordbound.cli import packages
from wordbound.cli.commands import INTERRUPTED, InputError, ServiceError

TO_INSTALL: Final = "in a clone: make demo; for GPUs: pip install -c constraints-gpu.txt '.[gpu]'"


def check_installed(command: str, *more: str) -> None:
    """Check that the service and ``more`` packages are installed.

    Raises:
        InputError: They are not.
    """
    installed = packages.installed_packages()
    if packages.find_engine(installed) is None or "ray" not in installed:
        raise InputError(f"`wordbound {command}` needs the service, which is not installed; {TO_INSTALL}")
    if missing := [name for name in more if name not in installed]:
        raise InputError(f"`wordbound {command}` needs {', '.join(missing)}: pip install {' '.join(missing)}")


def run_to_its_end(arguments: Sequence[str], environment: Mapping[str, str], *, explains_errors: bool = False) -> None:
    """Run a program at this terminal until it ends; the keys that end this one end it.

    ``explains_errors`` is whether the program has the exit statuses of a command, and prints what is wrong.

    Raises:
        ServiceError: It ended by itself, with an error.
        typer.Exit: It was interrupted, or explained its error.
    """
    stopped: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(number)
        # A terminal sends Ctrl-C to both; whoever ends this process by its number means the other too.
        if number == signal.SIGTERM:
            for child in children:
                child.send_signal(signal.SIGINT)

    # Before the program starts: one that a shell runs behind it ignores Ctrl-C, and so would its children.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        children.append(subprocess.Popen([sys.executable, *arguments], env=dict(environment)))
        status = children[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if status and explains_errors:
        raise typer.Exit(status)
    if status:
        raise ServiceError(f"the service ended with status {status}; what it wrote above says why")
