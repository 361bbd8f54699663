"""The manifest of an output folder: the input and the configuration of its run.

A run may be resumed only where both are the same, or its output would be of two kinds. A lock keeps a second run out
of a local folder.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deployments.offline.config import OfflineConfig
from deployments.offline.pieces import Input
from deployments.offline.source import RefusedError
from deployments.storage import Location

NAME: Final = "_manifest.json"
_LOCK: Final = "_lock"
_VERSION: Final = 1


def begin_or_go_on(folder: Location, found: Input, config: OfflineConfig) -> bool:
    """Mark the folder as this run's; return whether the run was begun before.

    Raises:
        RefusedError: Another run was begun there, with the differences, or the folder holds something else.
    """
    ours = {"version": _VERSION, "format": found.format, "config": config.digest, "files": found.files}
    manifest = folder.child(NAME)
    if not folder.filesystem.exists(manifest.path):
        if _holds_something(folder):
            raise RefusedError(f"{folder.url}: is not empty, and no run was begun there: choose another folder")
        manifest.write([json.dumps(ours, indent=2, ensure_ascii=False).encode()])
        return False
    try:
        theirs = json.loads(folder.filesystem.cat_file(manifest.path))
        difference = _difference(ours, theirs)
    except (ValueError, TypeError, KeyError) as error:
        raise RefusedError(f"{manifest.url}: cannot be read ({error}): choose another folder") from None
    if difference:
        raise RefusedError(f"{folder.url}: a run was begun there with {difference}: choose another folder")
    return True


@contextmanager
def only_run(folder: Location) -> Iterator[None]:
    """Hold the folder, so that no second run of this machine writes the same rows. Does nothing for a URL.

    Raises:
        RefusedError: Another run holds it.
    """
    if not folder.is_local:
        yield
        return
    Path(folder.path).mkdir(parents=True, exist_ok=True)
    with Path(folder.child(_LOCK).path).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedError(f"{folder.url}: another run writes there now: wait for its end") from None
        # The file stays: a second run may have opened it.
        yield


def _holds_something(folder: Location) -> bool:
    if not folder.filesystem.isdir(folder.path):
        return False
    return any(not path.endswith(f"/{_LOCK}") for path in folder.filesystem.ls(folder.path, detail=False))


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    if theirs["version"] != _VERSION:
        return f"a manifest of version {theirs['version']}, not {_VERSION}"
    if theirs["config"] != ours["config"]:
        return "a configuration that gives other answers"
    before, now = ({file["name"]: file for file in one["files"]} for one in (theirs, ours))
    if before.keys() != now.keys():
        return f"other files: {', '.join(sorted(before.keys() ^ now.keys())[:5])}"
    changed = [name for name in now if now[name] != before[name]]
    return f"another content of {', '.join(changed[:5])}" if changed else None
