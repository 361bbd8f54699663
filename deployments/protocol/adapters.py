"""The adapters that a request may name, as its ``model`` or as ``vocab.adapter``."""

from dataclasses import dataclass
from typing import Any, Final, Self

from deployments.contract import AUTO_ADAPTER
from deployments.errors import BadRequestError, ModelNotFoundError, printable
from deployments.settings import Settings

_PARAM: Final = "vocab.adapter"


@dataclass(frozen=True)
class AdapterNames:
    """The adapters of the model ``model_id``; ``merged`` is the one that is part of its weights, if any."""

    names: tuple[str, ...] = ()
    merged: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(tuple(settings.lora), settings.merged_adapter)

    def check_model(self, name: Any, model_id: str) -> None:
        """Raise ``ModelNotFoundError`` where ``name`` is neither the model nor an adapter."""
        if name != model_id and name not in self.names:
            raise _not_found("model", str(name), "model")

    def check_body(self, given: dict[str, Any], model_id: str) -> None:
        """Check the model that a body names, and remove it unless it is an adapter.

        Raises:
            ModelNotFoundError: There is no such model.
        """
        self.check_model(given.get("model", model_id), model_id)
        if given.get("model") == model_id:
            del given["model"]

    def check_asked(self, adapter: str | None, model: str, model_id: str) -> None:
        """Check the adapter that a vocabulary names, beside the request's model.

        Raises:
            ModelNotFoundError: There is no such adapter.
            BadRequestError: The model is another adapter, or has one merged into it.
        """
        if adapter == AUTO_ADAPTER:
            return
        if adapter is not None and adapter not in self.names:
            raise _not_found("adapter", adapter, _PARAM)
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


def _not_found(kind: str, name: str, param: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"The {kind} '{printable(name)}' does not exist. GET /v1/models lists what does.", param)
