"""``wordbound serve``, ``demo`` and ``train``: programs of the service, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer

from wordbound.cli import INTERRUPTED, NOT_AS_ASKED, InputError
from wordbound.cli.doctor import Machine, findings
from wordbound.cli.service import Configuration, check_installed
from wordbound.cli.terminal import note
from wordbound.errors import ServiceError


def run_to_its_end(arguments: Sequence[str], environment: Mapping[str, str], *, explains_errors: bool = False) -> None:
    """Run a Python program as a child process until it ends, by Ctrl-C too.

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


DEFAULT_CONFIG: Final = Path("serve_config.yaml")

_SECRET: Final = frozenset({"secret_token", "secrets_dir", "env_file"})
"""Settings that hold the service's key, or say where it is; as variables also with ``WORDBOUND_`` before them."""


def serve(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The YAML file of the service.", show_default=True)
    ] = DEFAULT_CONFIG,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check this machine before.")] = True,
) -> None:
    """Start the service of a YAML file, and serve until Ctrl-C.

    Before that the machine is checked as by wordbound doctor; where something is missing, nothing is started, and the
    exit status is 1. What `serve run` needs in its environment is set.
    """
    check_installed("serve")
    _check_service(config, check_machine=check)
    _run_service(config, os.environ)


def _check_service(config: Path, *, check_machine: bool = True, check_model: bool = True) -> None:
    """Check that the service of a YAML file has a key and what it needs of this machine.

    Raises:
        InputError: The file cannot be read, or there is no key.
        typer.Exit: Something is missing on this machine, and was printed.
    """
    read = Configuration.read(config)
    if not _has_secret(read.settings, os.environ):
        raise InputError("set SECRET_TOKEN to the key of the service, such as that of `openssl rand -hex 32`")
    if check_machine:
        model = (os.environ.get("MODEL_NAME") or read.model) if check_model else None
        failed = [found for found in findings(Machine(model, read.port)) if found.level == "fail"]
        for found in failed:
            note(str(found))
        if failed:
            raise typer.Exit(NOT_AS_ASKED)


def _run_service(config: Path, environment: Mapping[str, str]) -> None:
    """Run the service of a YAML file until Ctrl-C."""
    run_to_its_end(["-m", "deployments.serving", str(config)], environment)


def demo() -> None:
    """Start the service with a small model on this machine's processor, and serve until Ctrl-C.

    The model is fetched at the first start. Another one: MODEL_NAME=<Hugging Face id or folder> wordbound demo.
    """
    check_installed("demo", *([] if os.environ.get("MODEL_NAME") else ["gguf", "accelerate"]))
    run_to_its_end(["-m", "deployments.demo"], os.environ)


def _has_secret(settings: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return whether settings, environment or a .env file give the service's key or its place."""
    named = {name.lower().removeprefix("wordbound_") for name, value in environment.items() if value}
    return bool(_SECRET & (named | set(settings))) or Path(".env").is_file()


def train(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    from wordbound.train.options import TrainError, parse

    try:
        asked = parse(arguments or [])
    except TrainError as error:
        raise InputError(str(error)) from None
    check_installed("train", "peft")
    if asked.serve is not None:
        # Before the training, which may take hours; its model is not there yet.
        _check_service(asked.serve, check_model=False)
    run_to_its_end(["-m", "wordbound.train", *(arguments or [])], os.environ, explains_errors=True)
    if asked.serve is not None:
        _run_service(asked.serve, os.environ | _environment_of(asked.out.resolve()))


def _environment_of(out: Path) -> dict[str, str]:
    """Return the variables by which a service has the model of a training's folder: a decoder, or base and adapter."""
    adapter = out / "adapter"
    if not adapter.is_dir():
        return {"MODEL_NAME": str(out)}
    base = json.loads((out / "config.json").read_text(encoding="utf-8"))["model"]
    name = json.loads((adapter / "wordbound.json").read_text(encoding="utf-8"))["name"]
    return {"MODEL_NAME": base, "WORDBOUND_LORA": json.dumps({name: str(adapter)})}
