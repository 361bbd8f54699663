"""``wordbound serve`` and ``wordbound demo``: start the service on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import wordbound
from wordbound.cli.children import check_installed, run_to_its_end
from wordbound.cli.commands import NOT_AS_ASKED, InputError
from wordbound.cli.configuration import Configuration
from wordbound.cli.doctor import findings
from wordbound.cli.terminal import note

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
    read = Configuration.read(config)
    if not _has_secret(read.settings, os.environ):
        raise InputError("set SECRET_TOKEN to the key of the service, such as that of `openssl rand -hex 32`")
    if check:
        failed = [
            found for found in findings(os.environ.get("MODEL_NAME") or read.model, read.port) if found.level == "fail"
        ]
        for found in failed:
            note(str(found))
        if failed:
            raise typer.Exit(NOT_AS_ASKED)
    run_to_its_end(["-m", "deployments.serving", str(config)], os.environ)


def demo() -> None:
    """Start the service with a small model on this machine's processor, and serve until Ctrl-C.

    The model is fetched at the first start. Another one: MODEL_NAME=<Hugging Face id or folder> wordbound demo.
    """
    check_installed("demo", *([] if os.environ.get("MODEL_NAME") else ["gguf", "accelerate"]))
    clone = Path(wordbound.__file__).parents[1]
    if not (clone / "configs" / "demo.yaml").is_file():
        raise InputError("the demo runs in a clone of the repository, which has its configuration: make demo")
    run_to_its_end(["-m", "deployments.demo"], os.environ)


def _has_secret(settings: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    named = {name.lower().removeprefix("wordbound_") for name, value in environment.items() if value}
    return bool(_SECRET & (named | set(settings))) or Path(".env").is_file()
