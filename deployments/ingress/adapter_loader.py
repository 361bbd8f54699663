"""The routes that load adapters at run time and unload them, as vLLM names them; for keys of operators.

All of the service has an adapter, or none of it. Every replica loads it first, under a name that no request has; then
it is registered, which is when it exists; then the replicas take it up. One that fails to load it leaves the register
as it was.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Annotated, Final

from fastapi import Request
from pydantic import Field
from starlette.responses import PlainTextResponse, Response

from deployments.adapter_files import AdapterError
from deployments.adapter_register import Register, Registered
from deployments.contract import ENGINE_START_S
from deployments.errors import (
    UNAVAILABLE,
    BadRequestError,
    ForbiddenError,
    ModelNotFoundError,
    OverloadedError,
    printable,
    root_cause,
)
from deployments.ingress.body import read_checked
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Routes
from deployments.protocol.validation import Body, ModelName, validate
from deployments.settings.service import Settings
from deployments.settings.types import is_adapter_name


class LoadLoraAdapterRequest(Body):
    """Loads an adapter, with a key of an operator."""

    lora_name: ModelName
    """What requests call it: as their ``model``, or as ``vocab.adapter``."""
    lora_path: Annotated[str, Field(min_length=1, max_length=4096)]
    """Its folder, where the service runs, or its id at Hugging Face."""
    load_inplace: bool | None = None
    """Whether it takes the place of one of that name; by default that is an error."""


class UnloadLoraAdapterRequest(Body):
    """Unloads an adapter that was loaded at run time, with a key of an operator."""

    lora_name: ModelName


def add_adapters(routes: Routes, settings: Settings, backend: Backend) -> None:
    """Add the routes that load and unload adapters at run time."""
    limits = settings.limits
    loader, changes = AdapterLoader(settings, backend), set[asyncio.Task[None]]()
    said = {"text/plain": {"type": "string"}}

    async def finish(change: Coroutine[None, None, None]) -> None:
        """Make a change to its end, whether the client waits for it or not."""
        changes.add(task := asyncio.create_task(change))
        task.add_done_callback(changes.discard)
        await asyncio.shield(task)

    def check_operator(request: Request) -> None:
        if not settings.key(request.state.owner).operator:
            raise ForbiddenError("Only a key whose settings say operator: true may load and unload adapters.")

    @routes.add("POST", "/v1/load_lora_adapter", body=LoadLoraAdapterRequest, answer=said, part=None)
    async def load_lora_adapter(request: Request) -> Response:
        """Load an adapter into every replica, those that start later too; with a key of an operator."""
        check_operator(request)
        asked = await read_checked(request, limits, partial(validate, LoadLoraAdapterRequest))
        await finish(loader.load(asked.lora_name, asked.lora_path, replaces=bool(asked.load_inplace)))
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    @routes.add("POST", "/v1/unload_lora_adapter", body=UnloadLoraAdapterRequest, answer=said, part=None)
    async def unload_lora_adapter(request: Request) -> Response:
        """Unload an adapter that was loaded so; with a key of an operator."""
        check_operator(request)
        asked = await read_checked(request, limits, partial(validate, UnloadLoraAdapterRequest))
        await finish(loader.unload(asked.lora_name))
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")


logger = logging.getLogger("ray.serve.wordbound")

PRELOAD: Final = "preload_adapter"
SYNC: Final = "sync_adapters"
"""What replicas are asked to do."""


class AdapterLoader:
    """Loads and unloads the adapters of one service."""

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self._settings = settings
        self._backend = backend

    async def load(self, name: str, source: str, *, replaces: bool) -> None:
        """Have every replica load an adapter, those that start later too.

        Args:
            name: What requests call it.
            source: Its folder on the node of this process, or its id at Hugging Face.
            replaces: Whether it takes the place of one of that name. Requests under way keep theirs.

        Raises:
            CallerError: It cannot be loaded, or not here; nothing was changed.
            OverloadedError: No replica runs, or one did not answer; nothing was changed.
        """
        register = self._register()
        if not is_adapter_name(name):
            raise BadRequestError(
                "'lora_name' must be 1 to 128 letters, digits, _, -, ., : and /, other than auto.", "lora_name"
            )
        if name == self._settings.model_id:
            raise BadRequestError(f"'{printable(name)}' is the model's own name. Give another one.", "lora_name")
        self._check_own(name, "Give another one")
        async with register.locked():
            known = await asyncio.to_thread(register.read)
            if name in known and not replaces:
                raise BadRequestError(
                    f"The lora adapter '{printable(name)}' has already been loaded. If you want to load the adapter in "
                    "place, set 'load_inplace' to true.",
                    "lora_name",
                )
            try:
                added = await asyncio.to_thread(register.add_copy, name, source)
            except AdapterError as error:
                raise _refusal(str(error)) from error
            try:
                await self._preload(name, added)
                await asyncio.to_thread(register.write, {**known, name: added})
            except BaseException:
                register.discard(added)
                raise
            await self._sync()

    async def unload(self, name: str) -> None:
        """Have no replica answer with an adapter any more. Requests under way keep it.

        Raises:
            CallerError: There is none of that name, or it is the settings'.
        """
        register = self._register()
        self._check_own(name, "Take it out there and start the service again")
        async with register.locked():
            known = await asyncio.to_thread(register.read)
            if name not in known:
                raise ModelNotFoundError(f"The lora adapter '{printable(name)}' cannot be found.", "lora_name")
            await asyncio.to_thread(register.write, {one: added for one, added in known.items() if one != name})
            await self._sync()

    def _register(self) -> Register:
        """Return the register; refuse where the settings let no adapter be loaded at run time."""
        if (merged := self._settings.merged_adapter) is not None:
            raise BadRequestError(
                f"No adapter can be loaded here, for '{merged}' is merged into the model's weights: set lora_merge: "
                "false and lora_dir, and start the service again.",
                code="lora_merged",
            )
        if (register := Register.of(self._settings)) is None:
            raise BadRequestError(
                "No adapter can be loaded here: set lora_dir to a folder that all nodes share, and start the service "
                "again.",
                code="lora_dir_missing",
            )
        return register

    def _check_own(self, name: str, advice: str) -> None:
        if name in self._settings.lora:
            raise BadRequestError(
                f"The adapter '{printable(name)}' is one of the settings (lora). {advice}.", "lora_name"
            )

    async def _preload(self, name: str, added: Registered) -> None:
        """Have every replica load an adapter; raise where one refuses it, fails, or none runs."""
        answers = await self._backend.call_all(PRELOAD, name, added)
        faults = [answer for answer in answers if isinstance(answer, str)]
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        # A replica that has just died reads the register when it is started again.
        others = [error for error in errors if not isinstance(root_cause(error), UNAVAILABLE)]
        if faults:
            raise _refusal(faults[0])
        if others and not isinstance(others[0], TimeoutError):
            raise others[0]
        if others or len(errors) == len(answers):
            what = "A replica did not load it in time" if others else "No replica runs that could check it"
            raise OverloadedError(f"{what}. Try again when all do; any request starts one.", ENGINE_START_S)

    async def _sync(self) -> None:
        for answer in await self._backend.call_all(SYNC):
            if isinstance(answer, BaseException):
                # It does so by itself in a few seconds, and before it refuses a name that it does not know.
                logger.warning("a replica has not taken up the change of adapters yet: %r", answer)


def _refusal(fault: str) -> BadRequestError:
    return BadRequestError(f"{fault[:1].upper()}{fault[1:]}.", "lora_path")
