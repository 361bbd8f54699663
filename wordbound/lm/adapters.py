"""The LoRA adapters of a model, by the names that calls give them."""

from itertools import count

REMOVED_ADAPTER = "the LoRA adapter was removed or replaced before its rows were computed: ask again"


class WithAdapters:
    """A model that may have adapters; each call selects one by its name.

    A backend that has them writes ``load_adapter`` and ``unload_adapter``.
    """

    def __init__(self) -> None:
        # By name, the name that only this loading of it has: rows of one that was replaced are never found.
        self._adapters: dict[str, str] = {}
        self._adapter_numbers = count(1)

    def load_adapter(self, lora_path: str, loaded_name: str) -> None:
        """Load an adapter under a name that was never used before; errors are those of ``add_new_lora``."""
        raise NotImplementedError(
            f"{type(self).__name__} has no adapters: use the backend 'transformers' or 'vllm', "
            f"or merge {lora_path!r} into the model"
        )

    def unload_adapter(self, loaded_name: str) -> None:
        """Remove an adapter and what was cached with it; who still waits for its rows gets a ValueError."""

    def clear_rows(self) -> None:
        """Drop all cached rows."""

    def loaded_name(self, lora_name: str | None) -> str | None:
        """Return the name under which ``load_adapter`` got an adapter; ValueError where there is no such adapter."""
        if lora_name is None:
            return None
        try:
            return self._adapters[lora_name]
        except KeyError:
            raise ValueError(
                f"unknown LoRA adapter: {lora_name!r}; load it by add_new_lora, or leave lora_name out"
            ) from None

    def add_new_lora(self, lora_path: str, lora_name: str = "lora_1") -> None:
        """Load a LoRA adapter, which each call selects by its ``lora_name``; one of the same name is replaced.

        Args:
            lora_path: The adapter's folder, as peft saves it, or its name at the Hugging Face Hub.
            lora_name: The name that calls give.

        Raises:
            ValueError: There is no such adapter, it is damaged, or it does not fit the model; what was loaded stays.
            NotImplementedError: The backend has no adapters.
        """
        loaded_name = f"adapter{next(self._adapter_numbers)}"
        self.load_adapter(str(lora_path), loaded_name)
        replaced = self._adapters.get(lora_name)
        self._adapters[lora_name] = loaded_name
        self._unload(replaced)

    def remove_lora(self, lora_name: str) -> None:
        """Remove an adapter. ValueError where there is no such adapter."""
        self._unload(self.loaded_name(lora_name))
        del self._adapters[lora_name]

    def _unload(self, loaded_name: str | None) -> None:
        if loaded_name is not None:
            self.unload_adapter(loaded_name)
            self.clear_rows()

    def set_lora(self, lora_path: str | None = None, lora_name: str = "lora_1") -> None:  # noqa: ARG002
        """Raise RuntimeError: no adapter can be set for all calls."""
        raise RuntimeError(f"no adapter is set for all calls: give lora_name={lora_name!r} to each call")

    def clear_lora(self) -> None:
        """Raise RuntimeError: no adapter is ever set for all calls."""
        raise RuntimeError("no adapter is set for all calls: leave lora_name out for the model itself")
