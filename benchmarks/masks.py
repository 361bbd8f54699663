"""What one mask costs, by engine and by the number of words, on the same texts under the same definition of text.

    python benchmarks/masks.py --lang es --words 50 3000 50000 --tokenizer PATH [--json FILE] [--plot FILE.svg]
        [--engines NAME ...] [--limit-s 600] [--limit-gib 8]

Each engine runs at each N in a process of its own, one after the other, on one core and one thread. It must first
allow the texts, every token of them and their end, and refuse unlisted words; one that does not is reported and not
timed. The texts of the check are its warm-up; others of the same kind are timed, without Python's garbage collector.
One over a limit is killed and reported. The other engines come with `pip install '.[bench]'`.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.arm import load_model_tokenizer  # noqa: E402
from benchmarks.engines import ENGINES  # noqa: E402
from benchmarks.limited import run_limited  # noqa: E402
from benchmarks.machine import ONE_THREAD, facts_of_run  # noqa: E402
from benchmarks.report import compare_masks, goals, tables  # noqa: E402
from benchmarks.texts import OPTIONS, text_sets  # noqa: E402
from vocab.lists.wordlists import WordList, load_word_list  # noqa: E402
from vocab.text.reader import TextReader  # noqa: E402


def main() -> None:
    # Ended from outside, it ends the engine that is running too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    arguments = _arguments()
    tokenizer = load_model_tokenizer(arguments.tokenizer)
    word_list = load_word_list(arguments.lang, None)
    run: dict[str, Any] = {
        **facts_of_run(),
        "lang": arguments.lang,
        "list": {"source": word_list.source, "num_words": word_list.num_ranks},
        "options": OPTIONS.as_dict(),
        "tokenizer": {"name": Path(arguments.tokenizer).name, "num_tokens": len(tokenizer.facts)},
        "limits": {"seconds": arguments.limit_s, "gib": arguments.limit_gib},
        "texts": {n_words: _checked_texts(word_list, n_words) for n_words in arguments.words},
        "results": [],
    }
    del tokenizer
    try:
        for n_words in arguments.words:
            for engine in arguments.engines:
                print(f"{engine}, {n_words:,} words …", end=" ", file=sys.stderr, flush=True)
                result = _measure(engine, n_words, arguments)
                print(result["status"], file=sys.stderr)
                run["results"].append({"engine": engine, "n_words": n_words, **result})
    finally:
        # A run that is ended early tells what it has.
        _report(run, arguments)


def _report(run: dict[str, Any], arguments: argparse.Namespace) -> None:
    compare_masks(run)
    run["goals"] = goals(run) if run["results"] else []
    print(tables(run))
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    if arguments.plot:
        from benchmarks.plot import plot_masks

        plot_masks(run, arguments.plot)


def _checked_texts(word_list: WordList, n_words: int) -> dict[str, str]:
    """A sample of each kind of text, after the library's reader, which knows no tokens, has accepted them all."""
    reader, sets = TextReader(word_list, OPTIONS, n_words), text_sets(word_list, n_words)
    for text in (text for texts in sets for text in (*texts.warm_up, *texts.timed)):
        if not reader.is_text(text):
            raise RuntimeError(f"this is no text of the list: {text[:200]!r}")
    return {texts.name: texts.timed[0][:200] for texts in sets}


def _measure(engine: str, n_words: int, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        job = {"engine": engine, "lang": arguments.lang, "n_words": n_words, "tokenizer": arguments.tokenizer}
        outcome = run_limited(
            [sys.executable, "-m", "benchmarks.arm", json.dumps({**job, "report": str(report)})],
            cwd=ROOT,
            environment={**os.environ, **ONE_THREAD},
            limit_s=arguments.limit_s,
            limit_gib=arguments.limit_gib,
            log=Path(folder) / "log",
        )
        result: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {"phase": "starting"}
    result |= {"wall_s": round(outcome.seconds, 1), "peak_mib": max(result.get("peak_mib", 0), outcome.peak_mib)}
    if outcome.ending == "ended":
        return result
    message = {
        "over time": f"over {arguments.limit_s:g} s while {result['phase']}",
        "over memory": f"over {arguments.limit_gib:g} GiB while {result['phase']}",
        "crashed": f"crashed while {result['phase']}: {outcome.errors[-300:]}",
    }[outcome.ending]
    return {**result, "status": outcome.ending, "message": message}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--lang", default="es", help="a built-in list")
    parser.add_argument("--words", type=int, nargs="+", default=[50, 3_000, 50_000], metavar="N")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="NAME",
                        help=f"of {', '.join(ENGINES)}")  # fmt: skip
    parser.add_argument("--limit-s", type=float, default=600, help="for one engine and one N, all in all")
    parser.add_argument("--limit-gib", type=float, default=8, help="of resident memory, of an engine's processes")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    parser.add_argument("--plot", type=Path, help="draw mask time against list size into this file (needs matplotlib)")
    arguments = parser.parse_args()
    if Path(arguments.tokenizer).is_dir():
        arguments.tokenizer = str(Path(arguments.tokenizer).resolve())
    return arguments


if __name__ == "__main__":
    main()
