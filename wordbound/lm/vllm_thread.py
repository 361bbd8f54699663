"""The thread that steps a vLLM engine, and calls functions with it for other threads."""

import contextlib
import gc
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from vllm.lora.request import LoRARequest
from vllm.outputs import RequestOutput
from vllm.sampling_params import SamplingParams
from vllm.v1.engine.llm_engine import LLMEngine

from wordbound.lm.adapters import REMOVED_ADAPTER
from wordbound.lm.gathering import Ids


@dataclass(frozen=True, slots=True)
class Request:
    name: str
    ids: Ids
    params: SamplingParams
    lora: LoRARequest | None = None
    future: "Future[RequestOutput]" = field(default_factory=Future)


class EngineThread:
    """The thread that alone touches the engine, a step at a time. It holds no reference to the model object."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine: Any = engine
        self._thread = ThreadPoolExecutor(1, "wordbound-engine")
        self._running: dict[str, tuple[Request, str]] = {}
        """By our name: the request, and the engine's name for it."""
        self._is_stepping = False
        self._removed: set[LoRARequest] = set()
        self._error: Exception | None = None
        """Of the step that lost the engine."""

    def add(self, requests: Sequence[Request]) -> None:
        """Have requests run, and their futures set. RuntimeError after the end."""
        self._submit(self._add, requests)

    def abort(self, names: Sequence[str]) -> None:
        """Have requests aborted whose futures nobody reads; nothing after the end."""
        with contextlib.suppress(RuntimeError):
            self._submit(self._abort, names)

    def clear(self) -> None:
        """Have the engine forget keys and values; nothing after the end."""
        with contextlib.suppress(RuntimeError):
            self._submit(lambda: self.engine.reset_prefix_cache(reset_connector=True))

    def call(self, function: Callable[[Any], object], ends: LoRARequest | None = None) -> None:
        """Call a function with the engine and wait for it; the requests of adapter ``ends`` fail before."""
        self._submit(self._call, function, ends).result()

    def end(self) -> None:
        """End the thread and the engine; who waits for a request gets a RuntimeError. Harmless to repeat."""
        self._thread.shutdown()
        self._fail(self._running, RuntimeError("the model was cleaned up before the answer came"))
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.engine_core.shutdown()
            # The engine's objects refer to one another.
            gc.collect()

    def _submit(self, work: Callable[..., object], *arguments: object) -> "Future[object]":
        try:
            return self._thread.submit(work, *arguments)
        except RuntimeError as error:
            raise RuntimeError("this model was cleaned up: load it again") from error

    def _add(self, requests: Sequence[Request]) -> None:
        """Add requests to the engine, and step it; one that is refused, or of a removed adapter, fails."""
        for request in requests:
            if not request.future.set_running_or_notify_cancel():
                continue
            try:
                if self._error is not None:
                    raise self._error
                if request.lora in self._removed:
                    # The engine would read its files again.
                    raise ValueError(REMOVED_ADAPTER)
                prompt = {"prompt_token_ids": list(request.ids)}
                name = self.engine.add_request(request.name, prompt, request.params, lora_request=request.lora)
            except Exception as error:
                request.future.set_exception(error)
            else:
                self._running[request.name] = request, name
        if not self._is_stepping:
            self._go_on()

    def _abort(self, names: Sequence[str], error: Exception | None = None) -> None:
        """Abort those of the requests that run; with an error, they fail with it."""
        found = {name: self._running[name] for name in names if name in self._running}
        if found:
            self.engine.abort_request([name for _, name in found.values()], internal=True)
        if error is None:
            for name in found:
                del self._running[name]
        else:
            self._fail(found, error)

    def _call(self, function: Callable[[Any], object], ends: LoRARequest | None) -> None:
        if ends is not None:
            ended = [name for name, (request, _) in self._running.items() if request.lora is ends]
            self._abort(ended, ValueError(REMOVED_ADAPTER))
            self._removed.add(ends)
        function(self.engine)

    def _step(self) -> None:
        """Step the engine; where it is lost, all requests fail, later ones too."""
        try:
            for output in self.engine.step():
                if output.finished and (found := self._running.pop(output.request_id, None)):
                    found[0].future.set_result(output)
        except Exception as error:
            self._error = error
            self._fail(self._running, error)
        self._go_on()

    def _go_on(self) -> None:
        """Have the next step made after what others want meanwhile, while requests run and until the end."""
        self._is_stepping = bool(self._running)
        if self._is_stepping:
            with contextlib.suppress(RuntimeError):
                self._thread.submit(self._step)

    def _fail(self, names: Iterable[str], error: Exception) -> None:
        for name in list(names):
            self._running.pop(name)[0].future.set_exception(error)
