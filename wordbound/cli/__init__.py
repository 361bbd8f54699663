"""The command ``wordbound``; it runs where only the light base is installed, without Ray, torch and vLLM."""

from typing import Annotated

import typer

from wordbound.cli.commands import LazyCommands

app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    # Plain text, also where it is read by a program; and a traceback as Python prints it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        import wordbound

        print(wordbound.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Texts made of the words of a list: write them with a running service, check them, and serve.

    Exit status: 0 done; 1 the text has unlisted words, or lines of a batch failed; 2 wrong use or input; 3 the service
    cannot be reached or refuses; 130 interrupted.
    """


def main() -> None:
    # Also where it is run by `python -m`.
    app(prog_name="wordbound")
