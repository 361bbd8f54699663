"""The command ``wordbound``; it runs where only the light base is installed, without Ray, torch and vLLM."""

from typing import Annotated

import typer

from wordbound import __version__
from wordbound.cli.check import check
from wordbound.cli.doctor import doctor
from wordbound.cli.grammar import grammar

app = typer.Typer(
    no_args_is_help=True,
    # Plain text, also where it is read by a program; and a traceback as Python prints it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(check)
app.command()(doctor)
app.command()(grammar)


def _print_version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Texts made of the words of a list: check texts and this machine, and write grammars for other engines."""


def main() -> None:
    app()
