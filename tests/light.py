"""``python -m tests.light``: name the files whose tests need nothing but the light package, where no more is installed.

Those are left out that import, themselves or through others, a package that is not there, and those of JSON schemas,
which xgrammar reads.
"""

import importlib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
OURS: Final = ("vocab", "deployments", "wordbound", "tests")
OF_SCHEMAS: Final = ("structure", "test_engine_cache.py", "test_warm_up.py")


def light_files() -> list[str]:
    """Import every test file of the library and the command line, and return those that could be."""
    found = []
    for path in sorted((ROOT / "tests" / "vocab").rglob("test_*.py")):
        file = path.relative_to(ROOT)
        if not set(OF_SCHEMAS).isdisjoint(file.parts):
            continue
        try:
            importlib.import_module(".".join(file.with_suffix("").parts))
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] in OURS:
                raise
        except pytest.skip.Exception:
            pass
        else:
            found.append(str(file))
    return found


if __name__ == "__main__":
    print("\n".join(light_files()))
