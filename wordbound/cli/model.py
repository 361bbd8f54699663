"""What ``wordbound doctor`` asks of the model: whether a folder holds one, or Hugging Face gives it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from wordbound.cli.finding import Finding

_NEEDED: Final = "config.json"
_TIMEOUT_S: Final = 10.0
"""For an answer of the hub, which takes a second."""


def check_model(name: str, fetch: Callable[[str], None] | None = None) -> Finding:
    """Check for the model that ``MODEL_NAME`` or an option names; ``fetch`` raises where the hub does not give it."""
    if not name:
        return Finding("ok", "no model is named (MODEL_NAME); make demo fetches its own")
    if Path(name).expanduser().is_dir():
        if (Path(name).expanduser() / _NEEDED).is_file():
            return Finding("ok", f"the model in {name}")
        return Finding("fail", f"{name} has no {_NEEDED}", "name a folder as `save_pretrained` writes it")
    return _check_hub(name, fetch or _ask_hub)


def _check_hub(name: str, fetch: Callable[[str], None]) -> Finding:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        if isinstance(try_to_load_from_cache(name, _NEEDED), str):
            return Finding("ok", f"the model {name}, in the cache of Hugging Face")
        fetch(name)
    except HFValidationError:
        return Finding("fail", f"{name} is neither a folder nor the id of a model", "check MODEL_NAME")
    except GatedRepoError:
        return Finding("fail", f"{name} is given only to those who took its licence", "take it, and set HF_TOKEN")
    except RepositoryNotFoundError:
        return Finding("fail", f"Hugging Face has no {name}, or not for you", "check the name, or set HF_TOKEN")
    except Exception as error:
        # Whatever the hub's client raises: no network, a proxy, a server that fails.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return Finding("fail", f"{name} cannot be reached: {reason}", "connect the machine, or name a folder")
    return Finding("ok", f"the model {name}, on Hugging Face")


def _ask_hub(name: str) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    get_hf_file_metadata(hf_hub_url(name, _NEEDED), timeout=_TIMEOUT_S)
