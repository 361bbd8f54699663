"""The HTTP front under a real server."""

from collections.abc import Iterator
from functools import partial

import pytest

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import create_app
from deployments.settings.batch import BatchSettings
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import FEW
from tests.deployments.front import KEY, KEY_SETTINGS, LIMITS, MODEL, Front, running
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
    with running(app, request.param) as port:
        yield Front(port=port, backend=backend, batches=batches)


@pytest.fixture
def front(served: Front) -> Front:
    """The server, with no calls recorded yet."""
    served.backend.calls.clear()
    served.backend.ready = True
    served.batches.service = None
    return served
