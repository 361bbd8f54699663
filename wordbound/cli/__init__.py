"""The command ``wordbound``; it runs where only the light base is installed, without Ray, torch and vLLM.

A command is imported when it is run: word lists and HTTP take half a second, which help needs not. Whatever is wrong
with its input is one line that ends it: an ``InputError``, an error of a list or a file, or of the service's client.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperGroup
from typing_extensions import override

from wordbound.errors import RefusedError, ServiceError

DONE: Final = 0
NOT_AS_ASKED: Final = 1
"""The command did its work, and the text has unlisted words, lines have failed, or the machine lacks something."""
WRONG_INPUT: Final = 2
NO_SERVICE: Final = 3
INTERRUPTED: Final = 130
"""By Ctrl-C, as shells have it."""

STANDARD_INPUT: Final = "-"
"""In place of a file's name."""

_PLAIN: Final[dict[str, Any]] = {
    # Plain text, also where it is read by a program; and a traceback as Python prints it.
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class InputError(Exception):
    """Wrong use, or an input that cannot be read; the message is one line that says what to change."""


class Command(NamedTuple):
    """Where a command is: the function ``name`` (or ``run_<name>``, where Python has that name) of ``module``.

    Attributes:
        help: What it does, the first line of its own help too; the function's docstring has the rest.
        is_parsed_there: Whether all arguments go to the function as they are, ``--help`` too.
    """

    module: str
    help: str
    is_parsed_there: bool = False


COMMANDS: Final[Mapping[str, Command]] = {
    "write": Command("wordbound.cli.write", "Write a text in the words of a list, with a running service."),
    "rewrite": Command("wordbound.cli.write", "Rewrite a text in the words of a list, with a running service."),
    "exercises": Command(
        "wordbound.cli.write", "Make exercises from a text in the words of a list, with a running service."
    ),
    "chat": Command("wordbound.cli.chat", "Talk with a running service in the words of a list."),
    "batch": Command("wordbound.cli.batch", "Have a file of requests answered, and wait for the answers."),
    "mcp": Command("wordbound.cli.serve", "Give assistants the tools of a running service (Model Context Protocol)."),
    "check": Command("wordbound.cli.check", "Check texts against a word list."),
    "grammar": Command("wordbound.cli.levels", "Write the grammar of all texts that a word list allows."),
    "levels": Command("wordbound.cli.levels", "List the named levels of words, or import a published list."),
    "words": Command("wordbound.cli.levels", "List the words of a list, with their ranks and lemmas."),
    "demo": Command(
        "wordbound.cli.serve",
        "Start the service with a small model on this machine's processor, and serve until Ctrl-C.",
    ),
    "serve": Command("wordbound.cli.serve", "Start the service of a YAML file, and serve until Ctrl-C."),
    "compile": Command("wordbound.cli.compiling", "Compile word lists for a model before a service asks for them."),
    "train": Command("wordbound.cli.serve", "Train an adapter for a word list, or a small decoder from nothing.", True),
    "key": Command("wordbound.cli.serve", "Make a key for a service, or check one."),
    "doctor": Command("wordbound.cli.doctor", "Check whether this machine can serve."),
}
"""In the order of ``--help``."""

# Of typer, whose name for it depends on its version.
_UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]


class LazyCommands(TyperGroup):
    """A group that imports a command when it is run, and prints every error as one line."""

    @override
    def list_commands(self, _: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, _: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _build(cmd_name)
        return self.commands[cmd_name]

    @override
    def format_commands(self, _: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Suggestions are made from the commands imported so far.
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}: choose {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: Any) -> Any:
        """Run a command; print its error in one line and exit with the error's status."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            message = _message(error)
            if not message:
                # No argument at all, for which the help is shown.
                raise
            path = (getattr(error, "ctx", None) or ctx).command_path
            print(f"{path}: {message} (see {path} --help)", file=sys.stderr)
            raise typer.Exit(WRONG_INPUT) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if (explained := explain(error)) is None:
                raise
            message, status = explained
            print(f"wordbound {ctx.invoked_subcommand}: {message}", file=sys.stderr)
            raise typer.Exit(status) from None


def explain(error: Exception) -> tuple[str, int] | None:
    """Return the line and the exit status of an error whose message says what to change; None for any other."""
    from vocab.errors import VocabularyError

    if isinstance(error, InputError | RefusedError | VocabularyError):
        return str(error), WRONG_INPUT
    if isinstance(error, ServiceError):
        return str(error), NO_SERVICE
    # One without a file is no fault of an input.
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", WRONG_INPUT
    return None


def _build(name: str) -> Any:
    command = COMMANDS[name]
    module = import_module(command.module)
    # `compile` is a function of Python's own.
    function = getattr(module, name, None) or getattr(module, f"run_{name}")
    text = f"{command.help}\n\n{inspect.getdoc(function) or ''}"
    settings = {"ignore_unknown_options": True, "help_option_names": []} if command.is_parsed_there else None
    single = typer.Typer(add_completion=False, **_PLAIN)
    single.command(name, help=text, context_settings=settings)(_with_single_options(function))
    return typer.main.get_command(single)


def _with_single_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are dataclasses are options of their own.

    There is one for each field, or, where the annotation is ``Annotated[Dataclass, "field", …]``, for those fields.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[Any, list[Field[Any]]]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        kind, *names = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        if not is_dataclass(kind):
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = kind, [field for field in fields(kind) if not names or field.name in names]
        options += [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in groups[name][1]
        ]

    def run(**given: Any) -> None:
        for name, (kind, of_kind) in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in of_kind})
        function(**given)

    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    return run


def _message(error: Exception) -> str:
    """Return the message of an error in one line, without pydantic's prefix and the full stop."""
    message: str = getattr(error, "format_message", lambda: str(error))()
    # "Value error" is of pydantic, by which typer reads options.
    return " ".join(message.replace("Value error, ", "").split()).rstrip(".")


app = typer.Typer(cls=LazyCommands, no_args_is_help=True, **_PLAIN)


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
