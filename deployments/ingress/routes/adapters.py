"""The routes that load adapters at run time and unload them, as vLLM names them; for keys of operators."""

import asyncio
from collections.abc import Coroutine
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from deployments.adapters.loader import AdapterLoader
from deployments.errors import ForbiddenError
from deployments.ingress.backend import Backend
from deployments.ingress.body import read_checked
from deployments.protocol.adapters import LoadLoraAdapterRequest, UnloadLoraAdapterRequest, read_change
from deployments.settings.service import Settings

LOAD_PATHS: Final = (b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter")


def add_adapters(app: FastAPI, settings: Settings, backend: Backend) -> None:
    """Add the routes that load and unload adapters at run time."""
    limits = settings.limits
    changes = set[asyncio.Task[None]]()

    async def finish(change: Coroutine[None, None, None]) -> None:
        """Make a change to its end, whether the client waits for it or not."""
        changes.add(task := asyncio.create_task(change))
        task.add_done_callback(changes.discard)
        await asyncio.shield(task)

    def loader() -> AdapterLoader:
        return AdapterLoader(settings, backend.call_all)

    def check_operator(request: Request) -> None:
        if not settings.key(request.state.owner).operator:
            raise ForbiddenError("Only a key whose settings say operator: true may load and unload adapters.")

    @app.post("/v1/load_lora_adapter")
    async def load_lora_adapter(request: Request) -> Response:
        """Load an adapter into every replica, those that start later too; with a key of an operator."""
        check_operator(request)
        asked = await read_checked(request, limits, lambda body: read_change(LoadLoraAdapterRequest, body, limits))
        await finish(loader().load(asked.lora_name, asked.lora_path, replaces=bool(asked.load_inplace)))
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter")
    async def unload_lora_adapter(request: Request) -> Response:
        """Unload an adapter that was loaded so; with a key of an operator."""
        check_operator(request)
        asked = await read_checked(request, limits, lambda body: read_change(UnloadLoraAdapterRequest, body, limits))
        await finish(loader().unload(asked.lora_name))
        return PlainTextResponse(f"Success: LoRA adapter '{asked.lora_name}' removed successfully.")
