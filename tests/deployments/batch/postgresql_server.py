"""A PostgreSQL server of the tests' own, in a temporary folder and behind a Unix socket; needs the server's programs.

``python -m tests.deployments.batch.postgresql_server`` says whether they are there.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

NEEDED = (
    "no PostgreSQL server is installed: neither initdb on the PATH nor /usr/lib/postgresql/<version>/bin. On Debian and"
    " Ubuntu: apt-get install postgresql. The tests start a server of their own; none has to run."
)
PASSWORD = "open-sesame"


def binaries() -> Path | None:
    """The folder of the server's programs; Debian's is not on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in folders), key=lambda folder: int(folder.parent.name), default=None)


class PostgresqlServer:
    """A server that runs until it is closed."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not below pytest's folders, which only their owner may enter: the server refuses to run as root.
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._user: pwd.struct_passwd | None = None
        if os.geteuid() == 0:
            self._user = pwd.getpwnam("nobody")
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = ["-A", "scram-sha-256", "-U", "tests", f"--pwfile={password}", "-E", "UTF8", "--locale=C", "-N"]
        self._run("initdb", "-D", "data", *options)
        self._num_databases = 0
        self.start()

    def new_database(self) -> str:
        """Makes an empty database and gives its URL."""
        self._num_databases += 1
        name = f"tests_{self._num_databases}"
        address = f"host={self._folder} user=tests password={PASSWORD} dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql+psycopg://tests:{PASSWORD}@/{name}?host={self._folder}"

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off -c shared_buffers=16MB"
        self._run("pg_ctl", "start", "-D", "data", "-o", options)

    def stop(self) -> None:
        """Ends all connections at once, as a restart of the service does."""
        self._run("pg_ctl", "stop", "-D", "data", "-m", "fast")

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> None:
        with (self._folder / "log").open("ab") as log:
            ended = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user.pw_uid if self._user else None,
                group=self._user.pw_gid if self._user else None,
                extra_groups=[] if self._user else None,
                timeout=90,
                check=False,
            )
        assert ended.returncode == 0, (self._folder / "log").read_text()


if __name__ == "__main__":
    sys.exit(None if binaries() else NEEDED)
