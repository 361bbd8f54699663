"""The adapters that a request may name, as its ``model`` or as ``vocab.adapter``; and the requests that load them."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import Field

from deployments.adapter_register import Register
from deployments.contract import AUTO_ADAPTER
from deployments.errors import BadRequestError, ModelNotFoundError, printable
from deployments.protocol.validation import Body, ModelName, validate
from deployments.settings.service import Settings

_PARAM: Final = "vocab.adapter"
_UNSUPPORTED: Final = ("is_3d_lora_weight", "lora_int_id")


class LoadLoraAdapterRequest(Body):
    """Loads an adapter, with a key of an operator."""

    lora_name: ModelName
    """What requests call it: as their ``model``, or as ``vocab.adapter``."""
    lora_path: Annotated[str, Field(min_length=1, max_length=4096)]
    """Its folder, where the service runs, or its id at Hugging Face."""
    load_inplace: bool | None = None
    """Whether it takes the place of one of that name; by default that is an error."""


class UnloadLoraAdapterRequest(Body):
    """Unloads an adapter that was loaded at run time, with a key of an operator."""

    lora_name: ModelName


Change = TypeVar("Change", LoadLoraAdapterRequest, UnloadLoraAdapterRequest)


def read_change(model: type[Change], body: Any) -> Change:
    """Check the parsed body of a request that loads or unloads an adapter; CallerError names the first fault."""
    for name in _UNSUPPORTED:
        if isinstance(body, dict) and name in body:
            raise BadRequestError(f"'{name}' of vLLM is not supported here. Leave it out.", name)
    return validate(model, body)


@dataclass(frozen=True)
class AdapterNames:
    """The adapters of the model ``model_id``: those of the settings, and those in the register, which is read when
    another name is asked for; ``merged`` is the one that is part of the weights, if any."""

    names: tuple[str, ...] = ()
    merged: str | None = None
    register: Register | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(tuple(settings.lora), settings.merged_adapter, Register.of(settings))

    def __contains__(self, name: object) -> bool:
        return name in self.names or (self.register is not None and name in self.register.read())

    def check_model(self, name: Any, model_id: str) -> None:
        """Raise ``ModelNotFoundError`` where ``name`` is neither the model nor an adapter."""
        if name != model_id and name not in self:
            raise model_not_found(str(name))

    def check_body(self, given: dict[str, Any], model_id: str) -> None:
        """Check the ``model`` of a body, and delete it unless it is an adapter.

        Raises:
            ModelNotFoundError: There is no such model.
        """
        self.check_model(given.get("model", model_id), model_id)
        if given.get("model") == model_id:
            del given["model"]

    def check_asked(self, adapter: str | None, model: str, model_id: str) -> None:
        """Check that a request's ``vocab.adapter`` exists and goes with its ``model``.

        Raises:
            ModelNotFoundError: There is no such adapter.
            BadRequestError: The model is another adapter, or has one merged into it.
        """
        if adapter == AUTO_ADAPTER:
            return
        if adapter is not None and adapter not in self:
            raise model_not_found(adapter, "adapter", _PARAM)
        if adapter is None and self.merged is not None:
            raise BadRequestError(
                f"'{_PARAM}' cannot be null here, for the adapter '{self.merged}' is merged into the model: leave it "
                "out.",
                _PARAM,
            )
        if model not in (model_id, adapter):
            raise BadRequestError(
                f"'{_PARAM}' differs from 'model', which names another adapter: leave one of them out.", _PARAM
            )


NO_ADAPTERS: Final = AdapterNames()


def model_not_found(name: str, kind: str = "model", param: str = "model") -> ModelNotFoundError:
    return ModelNotFoundError(f"The {kind} '{printable(name)}' does not exist. GET /v1/models lists what does.", param)
