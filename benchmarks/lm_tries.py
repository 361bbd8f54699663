"""What the weights of all prefixes cost, by trie: ours and those of genlm-backend, in one run and one thread.

    pip install --no-deps --target GENLM genlm-backend==0.3.1
    python benchmarks/lm_tries.py --tokenizer PATH --genlm GENLM [--rounds 100] [--json FILE]

Each trie is built once, when its kernels are compiled, and holds what the process has grown by. Then they take turns,
with rows of random weights; the figures are medians. All must find the same weights. ``children`` and the other views
of ours are not built, and come with a look at them; genlm-backend's are.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import ONE_THREAD, facts_of_run, memory_mib, use_one_core  # noqa: E402

NUM_ROWS: Final = 16
"""Of a batch."""
WARM_UP: Final = (b"a", b"ab", b"b")


def main() -> None:
    arguments = _arguments()
    facts = facts_of_run()
    use_one_core()
    os.environ.update(ONE_THREAD)
    import numpy as np
    import torch
    from transformers import AutoTokenizer

    from wordbound.lm import ParallelTokenCharacterTrie, Token, TokenCharacterTrie, decode_vocab

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tokens, _ = decode_vocab(AutoTokenizer.from_pretrained(arguments.tokenizer))
    kinds: dict[str, tuple[Any, Any, dict[str, str]]] = {
        "wordbound": (TokenCharacterTrie, Token, {}),
        "wordbound, parallel": (ParallelTokenCharacterTrie, Token, {"device": "cpu"}),
    }
    if arguments.genlm:
        sequential, parallel, their_token = _of_genlm(arguments.genlm)
        kinds["genlm-backend, sequential"] = (sequential, their_token, {})
        kinds["genlm-backend, parallel"] = (parallel, their_token, {"device": "cpu"})
    rows = torch.log_softmax(
        torch.randn(NUM_ROWS, len(tokens), generator=torch.Generator().manual_seed(0)) * 4, -1
    ).exp()
    run: dict[str, Any] = {**facts, "tokenizer": Path(arguments.tokenizer).name, "num_tokens": len(tokens), "tries": {}}
    tries, expected = {}, None
    for name, (kind, token, options) in kinds.items():
        small = kind([token(i, word) for i, word in enumerate(WARM_UP)], **options)
        small.batch_weight_sum(torch.ones(2, len(WARM_UP)))
        vocabulary = [token(i, bytes(one)) for i, one in enumerate(tokens)]
        before, start = memory_mib().resident, time.perf_counter()
        tries[name] = kind(vocabulary, **options)
        seconds = time.perf_counter() - start
        run["tries"][name] = {"build_s": round(seconds, 3), "mib": round(memory_mib().resident - before, 1)}
        # The nodes are numbered otherwise, but the leaves and the root have their names.
        weights = tries[name].weight_sum(rows[0])
        known = [*weights[tries[name].idx_to_leaf[:, 1]], weights[tries[name].root]]
        expected = known if expected is None else expected
        # Those of genlm-backend's parallel trie are float32 sums.
        np.testing.assert_allclose(known, expected, rtol=1e-3)
        run["tries"][name]["num_nodes"] = len(weights)
    gc.disable()
    times: dict[tuple[str, str], list[float]] = {}
    for i in range(arguments.rounds):
        for name, trie in tries.items():
            row = rows[i % NUM_ROWS]
            times.setdefault((name, "row_us"), []).append(_microseconds(trie.weight_sum, row))
            times.setdefault((name, "max_row_us"), []).append(_microseconds(trie.weight_max, row))
            if i < arguments.rounds // 10:
                of_batch = _microseconds(trie.batch_weight_sum, rows) / NUM_ROWS
                times.setdefault((name, "row_of_batch_us"), []).append(of_batch)
    for (name, figure), found in times.items():
        run["tries"][name][figure] = round(statistics.median(found))
    _report(run)
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1) + "\n")


def _microseconds(function: Callable[[Any], Any], argument: Any) -> float:
    start = time.perf_counter()
    function(argument)
    return (time.perf_counter() - start) * 1e6


def _of_genlm(folder: Path) -> tuple[Any, Any, Any]:
    """Return its tries and its tokens, without its backends, which import engines."""
    sys.path.insert(0, str(folder))
    backend = types.ModuleType("genlm.backend")
    backend.__path__ = [str(folder / "genlm" / "backend")]
    sys.modules["genlm.backend"] = backend
    import importlib

    tries = importlib.import_module("genlm.backend.trie")
    tokens = importlib.import_module("genlm.backend.tokenization.token")
    return tries.TokenCharacterTrie, tries.ParallelTokenCharacterTrie, tokens.Token


def _report(run: dict[str, Any]) -> None:
    print(f"{run['tokenizer']}, {run['num_tokens']:,} tokens; load before {run['hardware']['load_before']}")
    ours = run["tries"]["wordbound"]["row_us"]
    print("| trie | build, s | MiB | nodes | weight_sum, µs a row | times ours | weight_max, µs | batch, µs a row |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, of in run["tries"].items():
        print(f"| {name} | {of['build_s']:.2f} | {of['mib']:.0f} | {of['num_nodes']:,} | {of['row_us']:,} "
              f"| {of['row_us'] / ours:.1f} | {of['max_row_us']:,} | {of['row_of_batch_us']:,} |")  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--genlm", type=Path, help="the folder that genlm-backend is installed in")
    parser.add_argument("--rounds", type=int, default=100, help="how often each trie has its turn")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
