"""The adapters that were loaded at run time: copies of their files in a folder that all nodes share, and a list.

The list, ``register.json``, is the truth: every process reads it when it has to know, so that all agree, and a service
that is started again has them. It is replaced whole, by one writer at a time. A copy is named by its content and never
changes; one that is no longer used stays for a while, as requests may still have it.
"""

import asyncio
import fcntl
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, Self

from deployments.adapter_files import CONFIG, FILES, WEIGHTS, Adapter, AdapterError
from deployments.errors import ConflictError, OverloadedError
from deployments.settings.service import Settings
from deployments.storage import Location

_KEEP_S: Final = 3600.0
"""A copy that nobody has any more stays so long: longer than an answer may take."""

_WAIT_S: Final = 30.0
"""How long a change waits for another one to end."""


@dataclass(frozen=True)
class Registered:
    """An adapter in the register: where it came from, and the name of its copy."""

    source: str
    copy: str

    def key(self, name: str) -> str:
        """Return the key by which engines know the adapter: its name, and a part of its content's digest.

        No client can give that name, and other content never has it; vLLM's prefix cache tells adapters apart by it.
        """
        return f"{name}@{self.copy[:16]}"


@dataclass(frozen=True)
class Register:
    """The register of adapters that were loaded at run time, in ``folder``."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return the register of a service; None where no adapters are loaded at run time."""
        is_on = settings.lora_dir is not None and settings.merged_adapter is None
        return cls(settings.lora_dir.expanduser()) if is_on and settings.lora_dir is not None else None

    @property
    def path(self) -> Path:
        return self.folder / "register.json"

    def read(self) -> dict[str, Registered]:
        """Return the registered adapters by name; reads a file of some kilobytes.

        Raises:
            AdapterError: It is damaged.
        """
        try:
            content = json.loads(self.path.read_bytes())
            return {name: Registered(**one) for name, one in content["adapters"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AdapterError(f"lora_dir: {self.path} cannot be read ({error}): mend or delete it") from error

    def write(self, adapters: Mapping[str, Registered]) -> None:
        """Replace the register's list, and delete copies that nobody has had for a while."""
        for unused in {one.copy for one in self.read().values()} - {one.copy for one in adapters.values()}:
            with suppress(OSError):
                os.utime(self.folder / unused)
        content = {"format": 1, "adapters": {name: asdict(one) for name, one in sorted(adapters.items())}}
        Location.of(str(self.path)).write([json.dumps(content, indent=2, ensure_ascii=False).encode()])
        self._delete_old_copies(adapters)

    def add_copy(self, name: str, source: str) -> Registered:
        """Copy the files of an adapter into the folder, unless they are there.

        Raises:
            AdapterError: It cannot be read.
            OSError: The folder cannot be written.
        """
        found = Adapter.read(name, source)
        made = Path(mkdtemp(prefix=".copy-", dir=self.folder))
        try:
            for file in FILES:
                if (found.folder / file).is_file():
                    shutil.copyfile(found.folder / file, made / file)
            copied = Adapter.read(name, str(made))
            digest = sha256(f"{copied.digest} {copied.card!r}".encode()).hexdigest()
            if not self._is_whole(digest):
                made.chmod(0o755)
                shutil.rmtree(self.folder / digest, ignore_errors=True)
                made.rename(self.folder / digest)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return Registered(source, digest)

    def adapter(self, name: str, registered: Registered) -> Adapter:
        """Read the copy of an adapter.

        Raises:
            AdapterError: It is damaged.
        """
        return Adapter.read(name, str(self.folder / registered.copy))

    def discard(self, registered: Registered) -> None:
        """Delete a copy, unless it is in the register."""
        if registered not in self.read().values():
            shutil.rmtree(self.folder / registered.copy, ignore_errors=True)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock under which the register is changed.

        Raises:
            OverloadedError: Somebody else is, for a long time.
            ConflictError: The folder cannot be written.
        """
        deadline = time.monotonic() + _WAIT_S
        with self._errors():
            await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > deadline:
                            raise OverloadedError(
                                "Another adapter is being loaded. Try again in a moment.", 5
                            ) from None
                        await asyncio.sleep(0.1)
                yield
            finally:
                os.close(lock)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise ``ConflictError`` where the register or its folder cannot be used."""
        try:
            yield
        except AdapterError as error:
            raise ConflictError(f"{error}.", code="lora_dir_unusable") from error
        except OSError as error:
            raise ConflictError(
                f"The folder of the setting lora_dir cannot be used ({error.strerror or type(error).__name__}): it has "
                "to be one that all nodes share, can write and can lock.",
                code="lora_dir_unusable",
            ) from error

    def _is_whole(self, copy: str) -> bool:
        return all((self.folder / copy / file).is_file() for file in (CONFIG, WEIGHTS))

    def _delete_old_copies(self, adapters: Mapping[str, Registered]) -> None:
        used = {one.copy for one in adapters.values()}
        for path in self.folder.iterdir():
            is_old = path.is_dir() and path.name not in used and time.time() - path.stat().st_mtime > _KEEP_S
            # Others may keep files of their own there.
            if is_old and (path.name.startswith(".copy-") or (len(path.name) == 64 and self._is_whole(path.name))):
                shutil.rmtree(path, ignore_errors=True)
