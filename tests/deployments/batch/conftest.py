"""The databases that batches may be remembered in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployments.batch.postgresql_server import NEEDED, PostgresqlServer, binaries


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
