"""The thread that steps a vLLM engine, and the commands that it takes from other threads."""

import gc
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
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


@dataclass(frozen=True, slots=True)
class Add:
    requests: Sequence[Request]


@dataclass(frozen=True, slots=True)
class Abort:
    names: Sequence[str]
    error: Exception | None = None
    """For who waits for them; None where nobody does."""


@dataclass(frozen=True, slots=True)
class Clear:
    pass


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[[Any], object]
    ends: LoRARequest | None
    future: "Future[object]" = field(default_factory=Future)


_Command = Add | Abort | Clear | _Call | None
"""None ends the thread."""


class EngineThread:
    """The thread that alone touches the engine. It holds no reference to the model object."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine: Any = engine
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._running: dict[str, tuple[Request, str]] = {}
        """By our name: the request, and the engine's name for it."""
        self._removed: set[LoRARequest] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="wordbound-engine", daemon=True)
        self._thread.start()

    def put(self, command: _Command) -> None:
        """Hand a command to the thread. RuntimeError where a request comes after the end."""
        with self._lock:
            if not self._ended:
                self._commands.put(command)
                return
        if isinstance(command, Add | _Call):
            raise RuntimeError("this model was cleaned up: load it again")

    def call(self, function: Callable[[Any], object], ends: LoRARequest | None = None) -> None:
        """Call a function with the engine and wait for it; the requests of adapter ``ends`` fail before."""
        self.put(command := _Call(function, ends))
        command.future.result()

    def end(self) -> None:
        """End the thread and the engine. Harmless to repeat."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._commands.put(None)
        self._thread.join()
        self.engine.engine_core.shutdown()
        self.engine = None
        # The engine's objects refer to one another.
        gc.collect()

    def _run(self) -> None:
        """Carry out commands, and step the engine while requests run; fail what is left at the end."""
        goes_on = True
        while goes_on:
            goes_on = self._do(self._commands.get())
            while goes_on and self._running:
                goes_on = self._do_waiting() and self._step()
        # Nothing is put any more.
        ended = RuntimeError("the model was cleaned up, or its engine was lost, before the answer came")
        self._fail(ended)
        while not self._commands.empty():
            command = self._commands.get()
            if isinstance(command, _Call):
                command.future.set_exception(ended)
            elif isinstance(command, Add):
                for request in command.requests:
                    request.future.set_exception(ended)

    def _do_waiting(self) -> bool:
        """Carry out the commands in the queue; return whether the thread goes on."""
        while not self._commands.empty():
            if not self._do(self._commands.get()):
                return False
        return True

    def _do(self, command: _Command) -> bool:
        """Carry out a command; return whether the thread goes on."""
        if command is None:
            return False
        if isinstance(command, Add):
            for request in command.requests:
                self._add(request)
        elif isinstance(command, Abort):
            found = [self._running.pop(name) for name in command.names if name in self._running]
            if found:
                self.engine.abort_request([name for _, name in found], internal=True)
            if command.error is not None:
                for request, _ in found:
                    request.future.set_exception(command.error)
        elif isinstance(command, _Call):
            self._call(command)
        else:
            self.engine.reset_prefix_cache(reset_connector=True)
        return True

    def _call(self, command: _Call) -> None:
        """Call a command's function with the engine, after failing the requests of its adapter."""
        if command.ends is not None:
            ended = [name for name, (request, _) in self._running.items() if request.lora is command.ends]
            self._do(Abort(ended, ValueError(REMOVED_ADAPTER)))
            self._removed.add(command.ends)
        try:
            command.future.set_result(command.function(self.engine))
        except Exception as error:
            command.future.set_exception(error)

    def _add(self, request: Request) -> None:
        """Add a request to the engine; one that is refused, or of a removed adapter, fails."""
        if not request.future.set_running_or_notify_cancel():
            return
        try:
            if request.lora in self._removed:
                # The engine would read its files again.
                raise ValueError(REMOVED_ADAPTER)
            name = self.engine.add_request(
                request.name, {"prompt_token_ids": list(request.ids)}, request.params, lora_request=request.lora
            )
        except Exception as error:
            request.future.set_exception(error)
        else:
            self._running[request.name] = request, name

    def _step(self) -> bool:
        """Step the engine; return whether the thread goes on. It does not where the engine is lost."""
        try:
            outputs = self.engine.step()
        except Exception as error:
            self._fail(error)
            with self._lock:
                self._ended = True
            return False
        for output in outputs:
            if output.finished and (found := self._running.pop(output.request_id, None)):
                found[0].future.set_result(output)
        return True

    def _fail(self, error: Exception) -> None:
        """Fail all running requests with an error."""
        for request, _ in self._running.values():
            request.future.set_exception(error)
        self._running.clear()
