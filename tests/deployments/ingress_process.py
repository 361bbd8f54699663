"""The front's ingress in a process of its own, over a stand-in: what Serve runs where an ingress listens itself.

python -m tests.deployments.ingress_process PORT
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pkgutil import resolve_name
from typing import Any

import numpy as np
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.contract import BEGUN, ReplicaRequest, RowsRequest
from deployments.process_setup import CALLBACK
from deployments.settings.limits import Limits
from tests.deployments.front import KEY_SETTINGS, app_of
from tests.deployments.stand_in import StandIn

EVENT = 'data: {"text": "%s"}\n\n' % ("word " * 200)
MAX_UNREAD_S = 3.0
ROWS = 20 * 2**20
"""Numbers of the largest answer, 80 MB as float32."""


class Writer(StandIn):
    """Writes ``max_tokens`` events, of a tenth of a second each where the request is no hurry, and rows of 80 MB."""

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        if isinstance(request, RowsRequest) and request.body["prompt"] == "large":
            yield {"shape": [1, ROWS], "prompt_tokens": 1}
            yield np.ones((1, ROWS), np.float32)
            return
        text = request.body["messages"][-1]["content"] if "messages" in request.body else ""
        if text not in ("slowly", "at once"):
            async for item in super().answer(request):
                yield item
            return
        yield BEGUN
        for _ in range(request.body["max_tokens"]):
            yield EVENT
            await asyncio.sleep(0.1 if text == "slowly" else 0)
        yield "data: [DONE]\n\n"


def with_health(app: ASGIApp) -> ASGIApp:
    """Answers Serve's own path as Serve does."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/-/healthz":
            await PlainTextResponse("success")(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


def main() -> None:
    limits = Limits(max_body_s=30, max_unread_s=MAX_UNREAD_S, max_new_tokens=10**6, max_rows_bytes=4 * ROWS)
    app: ASGIApp = with_health(app_of(Writer(), limits=limits, keys=KEY_SETTINGS))
    for middleware in resolve_name(CALLBACK)():
        app = middleware.cls(app, *middleware.args, **middleware.kwargs)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=int(sys.argv[1]), ws="none", lifespan="off", log_config=None, interface="asgi3"
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    os.environ["RAY_SERVE_ENABLE_DIRECT_INGRESS"] = "1"
    main()
