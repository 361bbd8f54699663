"""The HTTP front under a real server."""

from collections.abc import Iterator

import pytest

from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import FEW
from tests.deployments.front import Front, app_with_batches, running
from tests.deployments.stand_in import StandIn


@pytest.fixture(scope="session", params=["httptools", "h11"])
def served(request: pytest.FixtureRequest) -> Iterator[Front]:
    """One server for all tests, with each of the two HTTP parsers that Serve's proxy may use."""
    backend = StandIn()
    batches = DirectBatches()
    with running(app_with_batches(backend, batches, FEW), request.param) as port:
        yield Front(port=port, backend=backend, batches=batches)


@pytest.fixture
def front(served: Front) -> Front:
    """The server, with no calls recorded yet."""
    served.backend.calls.clear()
    served.backend.ready = True
    served.batches.service = None
    return served
