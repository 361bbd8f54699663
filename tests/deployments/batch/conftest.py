"""The databases that batches may be recorded in, and the service over HTTP in the test's own process."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from deployments.batch.store import BatchStore
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.postgresql_server import NEEDED, PostgresqlServer, binaries
from tests.deployments.batch.world import FEW, BatchWorld
from tests.deployments.front import KEY, KEYS, app_with_batches
from tests.deployments.stand_in import StandIn


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests."""
    programs = binaries()
    if programs is None:
        pytest.skip(NEEDED)
    server = PostgresqlServer(programs)
    yield server
    server.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, one of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/batches.sqlite"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def store(database_url: str) -> Iterator[BatchStore]:
    store = BatchStore(database_url)
    yield store
    store.close()


@pytest.fixture(scope="session")
def served_in_process() -> tuple[FastAPI, DirectBatches]:
    batches = DirectBatches()
    return app_with_batches(StandIn(), batches, FEW), batches


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[BatchWorld]:
    """Over each of the databases."""
    world = BatchWorld(tmp_path, database=database_url)
    yield world
    world.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[BatchWorld]:
    """With little room, so that little is needed to fill it; over SQLite."""
    world = BatchWorld(tmp_path, limits=FEW)
    yield world
    world.close()


@pytest.fixture
def client(served_in_process: tuple[FastAPI, DirectBatches], small: BatchWorld) -> Iterator[httpx2.Client]:
    """The service over ``small``, for its first key."""
    app, batches = served_in_process
    batches.service = small.service
    with http_client(app, KEY) as client:
        yield client
    batches.service = None


@pytest.fixture
def other(client: httpx2.Client, served_in_process: tuple[FastAPI, DirectBatches]) -> Iterator[httpx2.Client]:
    """The same for another key."""
    with http_client(served_in_process[0], KEYS["other"]) as other:
        yield other


def http_client(app: FastAPI, key: str) -> httpx2.Client:
    """Starlette's, which is a client of httpx2's."""
    return TestClient(app, "http://localhost", headers={"Authorization": f"Bearer {key}"})
