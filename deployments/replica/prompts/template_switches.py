"""The switches of a chat template: the variables that it reads besides those that every template gets."""

import logging
import re
from typing import Any, Final

from jinja2 import TemplateError, defaults, meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

logger = logging.getLogger("ray.serve")

_STANDARD: Final = frozenset(
    {
        *("add_generation_prompt", "continue_final_message", "documents", "messages", "tools"),
        *("chat_template", "raise_exception", "reasoning_effort", "strftime_now", "tokenize"),
        *defaults.DEFAULT_NAMESPACE,
    }
)
"""Given by transformers, vLLM or Jinja, or by a field of its own. Special tokens come on top, by their names."""

_GENERATION_TAG: Final = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A tag that only transformers knows."""


def template_switches(tokenizer: Any, chat_template: str | None) -> frozenset[str]:
    """Return what ``chat_template_kwargs`` may set, such as ``enable_thinking``.

    ``chat_template`` replaces the tokenizer's own; None for that.
    """
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        text = tokenizer.get_chat_template(chat_template)
        read = meta.find_undeclared_variables(environment.parse(_GENERATION_TAG.sub("", text)))
    except (ValueError, TemplateError) as error:
        logger.warning("the switches of the chat template are not known: %s", error)
        return frozenset()
    return frozenset(read) - _STANDARD - frozenset(tokenizer.SPECIAL_TOKENS_ATTRIBUTES)
