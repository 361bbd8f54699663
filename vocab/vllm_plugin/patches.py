"""How functions of vLLM are replaced: together or not at all, and only where they are what the patch was written for.

A patch names its target and the target's signature. Where the target is gone, its signature differs, or vLLM is of a
version on which the patch was not tried, nothing of its group is changed, and a warning says what is lost. No function
has two patches.

Three faults of vLLM itself are mended here (``docs/upstream.md`` has all):

*Messages.* Its sanitizer of error messages, which runs on the server's event loop, searches for paths and backtracks. A
JSON pointer of 10,000 parts, which xgrammar's message repeats, takes it 70 s, so it gets only the beginning of a
message.

*Adapters on a CPU.* vLLM finds a token's adapter by its index, which is -1 for none: PyTorch takes that for the last
one. Where ``max_loras`` adapters are loaded, a request of the model itself that shares a step with an adapter's is
answered by the adapter. Here what is added for such tokens is zero.

*Seeds on a CPU.* When a prompt takes several steps, vLLM draws at each of them and takes the draw back by the offset of
the request's random generator. CPU generators have no offset: vLLM and its engine fail as soon as one client sends a
seed with a prompt that does not fit into a step. Here such a request gets a generator that is reseeded instead, which
is the same, as a prompt is read before anything is drawn. (A request that was preempted for want of memory is reseeded
too, in the middle of its text; on a GPU it would go on.)
"""

import functools
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
import vllm
from typing_extensions import override
from vllm.logger import init_logger

logger = init_logger("vllm.wordbound")

_IS_PATCHED: Final = "_wordbound_is_patched"


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


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Patches that are of use together.

    Attributes:
        lost: What is lost without them, for the log.
        vllm_versions: The minor versions (``0.29``) on which they were tried, empty for any.
    """

    lost: str
    patches: tuple[Patch, ...]
    vllm_versions: frozenset[str] = frozenset()

    def install(self) -> bool:
        """Install all of them, or none; harmless to repeat. Return whether they are installed."""
        try:
            self._check_version()
            targets = [_resolve(patch) for patch in self.patches]
        except (ImportError, AttributeError, PatchError) as error:
            logger.warning("%s: %s", self.lost, error)
            return False
        for patch, (owner, name) in zip(self.patches, targets, strict=True):
            if patch.wrapper is not None:
                _wrap(owner, name, patch.wrapper)
        return True

    def _check_version(self) -> None:
        minor = ".".join(vllm.__version__.split(".")[:2])
        if self.vllm_versions and minor not in self.vllm_versions:
            tried = ", ".join(sorted(self.vllm_versions))
            raise PatchError(f"vLLM is {vllm.__version__}, and this was tried on {tried}")


def signature_of(target: Callable[..., Any]) -> str:
    """Return the parameters of a function or class as text, without annotations, which may change harmlessly."""
    signature = inspect.signature(target)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _resolve(patch: Patch) -> tuple[Any, str]:
    """Return the owner and name of a patch's target; raise ``PatchError`` where its signature differs."""
    module, _, path = patch.target.partition(":")
    parent, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(f"{module}:{parent}")
    found = signature_of(getattr(owner, name))
    if found != patch.signature:
        raise PatchError(f"{patch.target} has the signature {found}, not {patch.signature}")
    return owner, name


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if hasattr(original, _IS_PATCHED):
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(wrapped, _IS_PATCHED, True)
    setattr(owner, name, wrapped)


MAX_MESSAGE_CHARS: Final = 300
"""Takes 5 ms at worst, for the time grows with the square. vLLM's own messages are shorter."""


def _sanitize_beginning(original: Callable[[str], str], message: str) -> str:
    return original(message if len(message) <= MAX_MESSAGE_CHARS else message[: MAX_MESSAGE_CHARS - 1] + "…")


# Where all errors of chats and completions are made.
_SANITIZER: Final = "vllm.entrypoints.serve.exception_handling.error_response:sanitize_message"

LONG_MESSAGES: Final = PatchGroup(
    "A long error message may hold up all answers of a replica", (Patch(_SANITIZER, "(message)", _sanitize_beginning),)
)


def limit_sanitized_messages() -> None:
    """Have vLLM sanitize only the beginning of an error message; repeatable."""
    LONG_MESSAGES.install()


def _mask_inputs_without_adapter(
    original: Callable[..., Any],
    inputs: torch.Tensor,
    lora_b_weights: torch.Tensor,
    output_tensor: torch.Tensor,
    lora_indices_tensor: torch.Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    """Run vLLM's operation with zeros as inputs of the tokens without an adapter."""
    inputs = inputs.masked_fill((lora_indices_tensor < 0)[:, None], 0)
    return original(inputs, lora_b_weights, output_tensor, lora_indices_tensor, *rest, **options)


_HAVE_FAULTS: Final = frozenset({"0.29"})
"""Minor versions of vLLM that have the faults on a CPU, and on which the patches were tried."""

_EXPAND: Final = "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, add_inputs=True)"
_EXPAND_SLICE: Final = (
    "(inputs, lora_b_weights, output_tensor, lora_indices_tensor, slice_offset, slice_size, add_inputs=True)"
)

CPU_ADAPTERS: Final = PatchGroup(
    "On a CPU, requests without an adapter may be answered by one",
    tuple(
        Patch(f"vllm.lora.{module}:{name}", signature, _mask_inputs_without_adapter)
        # vLLM has two names for each of them.
        for module in ("ops.torch_ops.lora_ops", "punica_wrapper.punica_cpu")
        for name, signature in (("bgmv_expand", _EXPAND), ("bgmv_expand_slice", _EXPAND_SLICE))
    ),
    _HAVE_FAULTS,
)


class CpuGenerator(torch.Generator):
    """A generator on the CPU with the two methods that vLLM calls."""

    @override
    def get_offset(self) -> int:
        return 0

    @override
    def set_offset(self, offset: int) -> None:
        """Take all draws back, wherever ``offset`` is."""
        del offset
        self.manual_seed(self.initial_seed())


def _seed_on_cpu(original: Callable[..., None], request: Any) -> None:
    """Give a new request with a seed on a CPU a ``CpuGenerator``."""
    original(request)
    if type(request.generator) is torch.Generator and request.generator.device.type == "cpu":
        seeded = CpuGenerator()
        seeded.manual_seed(request.generator.initial_seed())
        request.generator = seeded


CPU_SEEDS: Final = PatchGroup(
    "On a CPU, a seed with a long prompt may end the engine",
    (Patch("vllm.v1.worker.gpu_input_batch:CachedRequestState.__post_init__", "(self)", _seed_on_cpu),),
    _HAVE_FAULTS,
)
