"""The HTTP front under a real server."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import uvicorn

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import create_app
from deployments.settings.batch import BatchSettings
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import FEW
from tests.deployments.front import KEY, KEY_SETTINGS, LIMITS, MODEL, Front, wait_until
from tests.deployments.stand_in import StandIn


@pytest.fixture(scope="session", params=["httptools", "h11"])
def served(request: pytest.FixtureRequest) -> Iterator[Front]:
    """One server for all tests, with each of the two HTTP parsers that Serve's proxy may use."""
    backend = StandIn()
    batches = DirectBatches()
    settings = Settings(
        model_id=MODEL, secret_token=KEY, keys=KEY_SETTINGS, limits=LIMITS, batch=BatchSettings(limits=FEW)
    )
    app = create_app(settings, backend, [partial(add_batch_routes, settings=settings, batches=batches)])
    config = uvicorn.Config(app, port=0, http=request.param, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield Front(port=server.servers[0].sockets[0].getsockname()[1], backend=backend, batches=batches)
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.fixture
def front(served: Front) -> Front:
    """The server, with no calls recorded yet."""
    served.backend.calls.clear()
    served.backend.ready = True
    served.batches.service = None
    return served
