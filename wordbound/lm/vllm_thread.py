"""The thread that steps a vLLM engine, and calls functions with it for other threads."""

import gc
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
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
    """The thread that alone touches the engine. It holds no reference to the model object."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine: Any = engine
        # What to do, and who waits for it.
        self._queue: queue.SimpleQueue[tuple[Callable[[], object], Sequence[Future[Any]]]] = queue.SimpleQueue()
        self._running: dict[str, tuple[Request, str]] = {}
        """By our name: the request, and the engine's name for it."""
        self._removed: set[LoRARequest] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="wordbound-engine", daemon=True)
        self._thread.start()

    def add(self, requests: Sequence[Request]) -> None:
        """Have requests run, and their futures set. RuntimeError after the end."""
        self._put(partial(self._add, requests), [request.future for request in requests])

    def abort(self, names: Sequence[str]) -> None:
        """Have requests aborted whose futures nobody reads."""
        self._put(partial(self._abort, names))

    def clear(self) -> None:
        """Have the engine forget keys and values."""
        self._put(lambda: self.engine.reset_prefix_cache(reset_connector=True))

    def call(self, function: Callable[[Any], object], ends: LoRARequest | None = None) -> None:
        """Call a function with the engine and wait for it; the requests of adapter ``ends`` fail before."""
        future: Future[object] = Future()
        self._put(lambda: future.set_result(self._call(function, ends)), [future])
        future.result()

    def end(self) -> None:
        """End the thread and the engine. Harmless to repeat."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._queue.put((lambda: None, ()))
        self._thread.join()
        self.engine.engine_core.shutdown()
        self.engine = None
        # The engine's objects refer to one another.
        gc.collect()

    def _put(self, work: Callable[[], object], waiting: Sequence["Future[Any]"] = ()) -> None:
        """Hand work to the thread; after the end RuntimeError where somebody would wait for it, else nothing."""
        with self._lock:
            if not self._ended:
                self._queue.put((work, waiting))
            elif waiting:
                raise RuntimeError("this model was cleaned up: load it again")

    def _run(self) -> None:
        """Do the work in the queue, and step the engine while requests run; fail what is left at the end."""
        while not self._ended:
            self._do_next()
            while self._running and not self._ended:
                if self._queue.empty():
                    self._step()
                else:
                    self._do_next()
        # Nothing is put any more.
        ended = RuntimeError("the model was cleaned up, or its engine was lost, before the answer came")
        self._fail(self._running, ended)
        while not self._queue.empty():
            for future in self._queue.get()[1]:
                future.set_exception(ended)

    def _do_next(self) -> None:
        """Do the first work in the queue, once there is some; its error goes to who waits for it."""
        work, waiting = self._queue.get()
        try:
            work()
        except Exception as error:
            for future in waiting:
                future.set_exception(error)

    def _add(self, requests: Sequence[Request]) -> None:
        """Add requests to the engine; one that is refused, or of a removed adapter, fails."""
        for request in requests:
            if not request.future.set_running_or_notify_cancel():
                continue
            try:
                if request.lora in self._removed:
                    # The engine would read its files again.
                    raise ValueError(REMOVED_ADAPTER)
                prompt = {"prompt_token_ids": list(request.ids)}
                name = self.engine.add_request(request.name, prompt, request.params, lora_request=request.lora)
            except Exception as error:
                request.future.set_exception(error)
            else:
                self._running[request.name] = request, name

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

    def _call(self, function: Callable[[Any], object], ends: LoRARequest | None) -> object:
        if ends is not None:
            ended = [name for name, (request, _) in self._running.items() if request.lora is ends]
            self._abort(ended, ValueError(REMOVED_ADAPTER))
            self._removed.add(ends)
        return function(self.engine)

    def _step(self) -> None:
        """Step the engine; where it is lost, all requests fail and the thread ends."""
        try:
            outputs = self.engine.step()
        except Exception as error:
            self._fail(self._running, error)
            with self._lock:
                self._ended = True
            return
        for output in outputs:
            if output.finished and (found := self._running.pop(output.request_id, None)):
                found[0].future.set_result(output)

    def _fail(self, names: Iterable[str], error: Exception) -> None:
        for name in list(names):
            self._running.pop(name)[0].future.set_exception(error)
