"""The LoRA adapters of a model, by the names that calls give them."""

from itertools import count

REMOVED_ADAPTER = "the LoRA adapter was removed or replaced before its rows were computed: ask again"


class WithAdapters:
    """A model that may have adapters; each call selects one by its name, or ``set_lora`` one for all that name none.

    A backend that has them writes ``load_adapter`` and ``unload_adapter``.
    """

    def __init__(self) -> None:
        # By name, the name that only this loading of it has: rows of one that was replaced are never found.
        self._adapters: dict[str, str] = {}
        self._adapter_paths: dict[str, str] = {}
        self._adapter_numbers = count(1)
        self._set_adapter: str | None = None

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
        """Return the name under which ``load_adapter`` got an adapter; ValueError where there is no such adapter.

        None is the adapter that is set for all calls, or the model itself.
        """
        name = self._set_adapter if lora_name is None else lora_name
        if name is None:
            return None
        try:
            return self._adapters[name]
        except KeyError:
            raise ValueError(
                f"unknown LoRA adapter: {name!r}; load it by add_new_lora, or leave lora_name out (after clear_lora, "
                "where it was set for all calls)"
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
        self._adapters[lora_name], self._adapter_paths[lora_name] = loaded_name, str(lora_path)
        self._unload(replaced)

    def remove_lora(self, lora_name: str) -> None:
        """Remove an adapter. ValueError where there is no such adapter."""
        self._unload(self.loaded_name(lora_name))
        del self._adapters[lora_name], self._adapter_paths[lora_name]

    def _unload(self, loaded_name: str | None) -> None:
        if loaded_name is not None:
            self.unload_adapter(loaded_name)
            self.clear_rows()

    def set_lora(self, lora_path: str | None = None, lora_name: str | None = None) -> None:
        """Set a loaded adapter for all calls without a ``lora_name``, until ``clear_lora``.

        Args:
            lora_path: The adapter by its name, or by the path that ``add_new_lora`` loaded it from.
            lora_name: Its name, whatever the path; without both, "lora_1".

        Raises:
            ValueError: There is no such adapter; what was set stays.
        """
        name = lora_name or lora_path or "lora_1"
        if not lora_name and name not in self._adapters:
            name = next((known for known in self._adapters if self._adapter_paths[known] == str(lora_path)), name)
        self.loaded_name(name)
        self._set_adapter = name

    def clear_lora(self) -> None:
        """Let calls without a ``lora_name`` be of the model itself again."""
        self._set_adapter = None
