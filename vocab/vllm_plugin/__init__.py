"""Everything that touches vLLM's internals, and the entry point of the plugin.

vLLM loads the plugins of its environment into every process of every engine, also of engines that are not ours.
``register``, our entry point, changes nothing there unless ``use_plugin`` was called before the engine was made.
"""

import os
from typing import Final

PLUGIN_VARIABLE: Final = "WORDBOUND_PLUGIN"
"""Environment variable of an engine's processes: "1" where they are to load the plugin."""

_COPIED_BY_RAY: Final = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
"""vLLM's own: variables that its workers in processes of Ray get from the engine, besides those of vLLM."""


def use_plugin() -> None:
    """Have the engines that this process makes from now on load the plugin, in all their processes on all nodes."""
    os.environ[PLUGIN_VARIABLE] = "1"
    copied = [name for name in os.environ.get(_COPIED_BY_RAY, "").split(",") if name]
    os.environ[_COPIED_BY_RAY] = ",".join(dict.fromkeys([*copied, PLUGIN_VARIABLE]))


def register() -> None:
    """Install the plugin in this process, if its environment asks for that. Harmless to repeat."""
    if os.environ.get(PLUGIN_VARIABLE) == "1":
        # Only here: an engine of somebody else's does not even import it.
        from vocab.vllm_plugin.backend import install

        install()
