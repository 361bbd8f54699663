"""vLLM's own manager of structured outputs with the plugin, and the calls of vLLM's scheduler around it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import vllm.v1.structured_output as structured_output
from transformers import AutoTokenizer
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from vocab.vllm_plugin import PLUGIN_VARIABLE, register, use_plugin

Row: TypeAlias = npt.NDArray[np.int32]

EOS = 2
COPIED_BY_RAY = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"


class Manager:
    """The structured outputs of an engine with this model, and its requests that are not finished."""

    def __init__(self, model: Path, **fields: Any) -> None:
        self.config = EngineArgs(model=str(model), enforce_eager=True, **fields).create_engine_config()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.requests: dict[str, Request] = {}
        self._manager = StructuredOutputManager(self.config)

    def ask(self, name: str, structure: dict[str, Any], max_tokens: int, prompt: str = "a") -> Request:
        """Begin a request, whose grammar may be refused; a JSON schema may be given as it is."""
        constraint = StructuredOutputsParams(
            **{key: json.dumps(value) if isinstance(value, dict) else value for key, value in structure.items()}
        )
        constraint._backend = "xgrammar"
        params = SamplingParams(max_tokens=max_tokens, structured_outputs=constraint)
        params.update_from_generation_config({}, EOS)
        request = Request(name, self.tokenizer.encode(prompt), params, None)
        self._manager.grammar_init(request)
        structured = request.structured_output_request
        assert structured is not None
        while not structured._check_grammar_completion():
            time.sleep(0.001)
        # vLLM compiles a regular expression within 5 s or refuses it, on a busy machine too.
        if not isinstance(structured.grammar, Exception):
            self.requests[name] = request
        return request

    def masks(self, drafts: dict[str, list[int]] | None = None) -> dict[str, Row]:
        """What each request may write next, in one step."""
        rows = self._manager.grammar_bitmask(self.requests, list(self.requests), drafts or {})
        assert rows is not None
        return {name: row.copy() for name, row in zip(self.requests, rows, strict=False)}

    def write(self, name: str, token: int) -> bool:
        """Whether a request goes on after this token."""
        request, goes_on = self.requests[name], True
        request.append_output_token_ids([token])
        if self._manager.should_advance(request, new_token_ids=[token]):
            structured = request.structured_output_request
            assert structured is not None
            advance = self._manager.trim_reasoning_for_advance(request, [token])
            goes_on = not advance or bool(structured.grammar.accept_tokens(name, advance))
        if not goes_on or token == EOS:
            del self.requests[name]
        return goes_on


@contextmanager
def installed_plugin() -> Iterator[pytest.MonkeyPatch]:
    """The plugin in vLLM's manager, which is afterwards as it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structured_output, "XgrammarBackend", structured_output.XgrammarBackend)
        for name in ("grammar_bitmask", "trim_reasoning_for_advance"):
            patch.setattr(StructuredOutputManager, name, getattr(StructuredOutputManager, name))
        for name in (PLUGIN_VARIABLE, COPIED_BY_RAY):
            patch.setenv(name, "")
        use_plugin()
        register()
        yield patch
