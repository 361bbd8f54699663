"""The programs behind the figures of the documentation: ``python -m benchmarks PROGRAM [PART] …``, with ``--help``."""

import runpy
import sys
from typing import Final

PROGRAMS: Final = {
    "load": ("faults", "upgrade", "lane"),
    "speed": ("batch", "masks", "controls", "grammars", "scheduler", "beams"),
    "quality": ("texts", "traps"),
    "gpu": (),
}
"""What clients see of a service; how fast it is; how well its texts read; a CUDA machine. With the parts of each."""


def main() -> None:
    program, *arguments = sys.argv[1:] or ["speed", "batch"]
    if program not in PROGRAMS:
        sys.exit(f"benchmarks: there is no program {program!r}: {', '.join(PROGRAMS)}")
    module = f"benchmarks.{program}"
    if parts := PROGRAMS[program]:
        if not arguments or arguments[0] not in parts:
            sys.exit(f"benchmarks: name a part of {program}: {', '.join(parts)}")
        module += f".{arguments.pop(0)}"
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
