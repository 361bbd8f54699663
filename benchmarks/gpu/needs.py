"""What texts within a list need of vLLM and of this installation, asked before an engine is started."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

PLUGIN_GROUP: Final = "vllm.general_plugins"


def why_unconstrained() -> str:
    """Return why the engine would not know our grammars, and write nothing instead; empty where it does."""
    if "wordbound" not in (point.name for point in entry_points(group=PLUGIN_GROUP)):
        return (
            "vLLM does not find the plugin, for wordbound is not installed: "
            "pip install --no-deps --no-build-isolation -e ."
        )
    try:
        backend: Any = import_module("vocab.vllm_plugin.backend")
    except ImportError as error:
        return f"vocab.vllm_plugin.backend cannot be imported: {error}"
    backend.install()
    if import_module("vllm.v1.structured_output").XgrammarBackend is not backend.WordboundBackend:
        return "this vLLM's XgrammarBackend is not the one that the plugin extends: see the warning above"
    return ""
