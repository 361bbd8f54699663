"""Patches of another library's functions, installed only where those are what the patch was written for.

A patch names its target and the target's signature. Where the target is gone, its signature differs, or vLLM is of a
version on which the patch was not tried, nothing is changed, and a warning says what is lost.

One of them is here: vLLM's sanitizer of error messages, which runs on the server's event loop, searches for paths and
backtracks. A JSON pointer of 10,000 parts, which xgrammar's message repeats, takes it 70 s (``docs/upstream.md``), so
it gets only the beginning of a message.
"""

import functools
import inspect
import pkgutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import vllm
from vllm.logger import init_logger

logger = init_logger("vllm.wordbound")

_WRAPPERS: Final = "_wordbound_wrappers"


@dataclass(frozen=True, slots=True)
class Patch:
    """A wrapper for one function or class.

    Attributes:
        target: ``module:name`` or ``module:class.name``.
        signature: Its parameters, with defaults and without annotations, as ``signature_of`` writes them.
        wrapper: Called as ``wrapper(original, …)`` instead; None where only the signature matters.
    """

    target: str
    signature: str
    wrapper: Callable[..., Any] | None = None


class PatchError(Exception):
    """A target is not what the patch was written for."""


def install_patches(patches: Sequence[Patch], *, lost: str, vllm_versions: Collection[str] = ()) -> bool:
    """Install all of these patches, or none; harmless to repeat. Return whether they are installed.

    ``lost`` is what is lost without them, for the log; ``vllm_versions`` the minor versions (``0.29``) on which they
    were tried, empty for any.
    """
    try:
        if vllm_versions and _minor(vllm.__version__) not in vllm_versions:
            raise PatchError(f"vLLM is {vllm.__version__}, and this was tried on {', '.join(sorted(vllm_versions))}")
        targets = [_check(patch) for patch in patches]
    except (ImportError, AttributeError, PatchError) as error:
        logger.warning("%s: %s", lost, error)
        return False
    for patch, (owner, name) in zip(patches, targets, strict=True):
        if patch.wrapper is not None:
            _wrap(owner, name, patch.wrapper)
    return True


def signature_of(target: Callable[..., Any]) -> str:
    """Return the parameters of a function or class as text, without annotations, which may change harmlessly."""
    signature = inspect.signature(target)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _check(patch: Patch) -> tuple[Any, str]:
    """Return the owner and name of a patch's target; raise ``PatchError`` where its signature differs."""
    module, _, path = patch.target.partition(":")
    parent, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(f"{module}:{parent}")
    found = signature_of(getattr(owner, name))
    if found != patch.signature:
        raise PatchError(f"{patch.target} has the signature {found}, not {patch.signature}")
    return owner, name


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace a function by a wrapped one, unless this wrapper is there already."""
    original = getattr(owner, name)
    done: frozenset[str] = getattr(original, _WRAPPERS, frozenset())
    key = f"{wrapper.__module__}.{wrapper.__qualname__}"
    if key in done:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(wrapped, _WRAPPERS, done | {key})
    setattr(owner, name, wrapped)


def _minor(version: str) -> str:
    """Return the minor version: "0.29" of "0.29.1"."""
    return ".".join(version.split(".")[:2])


MAX_MESSAGE_CHARS: Final = 300
"""Takes 5 ms at worst, for the time grows with the square. vLLM's own messages are shorter."""


def _sanitize_beginning(original: Callable[[str], str], message: str) -> str:
    """Sanitize only the beginning of an error message, at most ``MAX_MESSAGE_CHARS`` of it."""
    return original(message if len(message) <= MAX_MESSAGE_CHARS else message[: MAX_MESSAGE_CHARS - 1] + "…")


# Where all errors of chats and completions are made.
_SANITIZER: Final = Patch(
    "vllm.entrypoints.serve.exception_handling.error_response:sanitize_message", "(message)", _sanitize_beginning
)


def limit_sanitized_messages() -> None:
    """Have vLLM sanitize only the beginning of an error message; repeatable."""
    install_patches([_SANITIZER], lost="A long error message may hold up all answers of a replica")
