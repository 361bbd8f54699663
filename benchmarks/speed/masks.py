"""What one mask costs, by engine and by the number of words, on the same texts under the same definition of text.

    python -m benchmarks speed masks [--lang es] [--words 50,3000,50000] [--engines NAME ...] [--limit-s 600]
        [--limit-gib 8] [--json FILE]

Each engine runs at each N in a process of its own, one after the other, on one core and one thread. It must first
allow the texts, every token of them and their end, and refuse unlisted words; one that does not is reported and not
timed. The texts of the check are its warm-up; others of the same kind are timed, without Python's garbage collector.
One over a limit is ended and reported. Prints the milliseconds and microseconds of each as a table: only wordbound
holds each word to one spelling in tokens, so that its masks are smaller than those that equal each other.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.command import ROOT, numbers, parser_of
from benchmarks.machine import ONE_THREAD, facts_of_run, use_one_core
from benchmarks.speed.engines import ENGINES, Definition, Engine, ModelTokenizer, load_model_tokenizer
from benchmarks.speed.texts import OPTIONS, TextSet, text_sets, unlisted_texts
from vocab.lists.wordlists import load_word_list
from vocab.text.reader import TextReader

NUM_COPIES: Final = 2_000
OURS: Final = "wordbound"

Report = dict[str, Any]


class CheckError(Exception):
    """The engine allows other texts than the definition."""


def main() -> None:
    arguments = _arguments()
    if arguments.arm:
        engine, n_words = arguments.arm
        print(json.dumps(run_arm(arguments.model, arguments.lang, engine, int(n_words), arguments.limit_gib)))
        return
    word_list = load_word_list(arguments.lang, None)
    for n_words in arguments.words:
        # By the library's reader, which knows no tokens.
        reader = TextReader(word_list, OPTIONS, n_words)
        texts = [text for of_kind in text_sets(word_list, n_words) for text in (*of_kind.warm_up, *of_kind.timed)]
        if wrong := [text for text in texts if not reader.is_text(text)]:
            raise RuntimeError(f"this is no text of the list: {wrong[0][:200]!r}")
    run: Report = {**facts_of_run(), "model": arguments.model, "lang": arguments.lang, "results": []}
    try:
        for n_words in arguments.words:
            for engine in arguments.engines:
                print(f"{engine}, {n_words:,} words …", file=sys.stderr, flush=True)
                run["results"].append({"engine": engine, "n_words": n_words, **_measure(engine, n_words, arguments)})
    finally:
        # A run that is ended early reports what it has.
        compare_masks(run["results"])
        print(f"{run['date']}\n{run['hardware']}\n{run['versions']}\n", *table(run["results"]), sep="\n")
        if arguments.json:
            arguments.json.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


def _arguments() -> Any:
    parser = parser_of(__doc__)
    parser.add_argument("--lang", default="es", help="a built-in list")
    parser.add_argument("--words", type=numbers, default=[50, 3_000, 50_000], help="each N, with commas between them")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="NAME",
                        help=f"of {', '.join(ENGINES)}")  # fmt: skip
    parser.add_argument("--limit-s", type=float, default=600, help="for one engine and one N, all in all")
    parser.add_argument("--limit-gib", type=float, default=8, help="of memory that an engine's process writes to")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    parser.add_argument("--arm", nargs=2, help="internal: an engine and N, in this process")
    return parser.parse_args()


def _measure(engine: str, n_words: int, arguments: Any) -> Report:
    command = [sys.executable, "-m", "benchmarks.speed.masks", "--model", arguments.model, "--lang", arguments.lang]
    command += ["--limit-gib", str(arguments.limit_gib), "--arm", engine, str(n_words)]
    environment = {**os.environ, **ONE_THREAD}
    return run_limited(command, environment, arguments.limit_s, arguments.limit_gib)


def run_limited(command: list[str], environment: dict[str, str], limit_s: float, limit_gib: float) -> Report:
    """Return the JSON that a process prints last, or why there is none; it limits its own memory."""
    try:
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"status": f"over {limit_s:g} s"}
    if ended.returncode:
        is_memory = any(sign in ended.stderr for sign in ("MemoryError", "bad_alloc", "memory allocation of"))
        return {"status": f"over {limit_gib:g} GiB" if is_memory else f"crashed: {ended.stderr[-300:]}"}
    report: Report = json.loads(ended.stdout.splitlines()[-1])
    return report


def run_arm(model: str, lang: str, name: str, n_words: int, limit_gib: float) -> Report:
    """Prepare and compile one engine, check it against texts, which warms it up too, and time it on other texts."""
    use_one_core()
    most = int(limit_gib * 1024**3)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    tokenizer = load_model_tokenizer(model)
    definition = Definition(load_word_list(lang, None), OPTIONS, n_words)
    sets = text_sets(definition.word_list, n_words)
    try:
        engine = ENGINES[name](tokenizer)
        report: Report = {"compile_s": engine.compile(definition)}
        course = Course(engine, tokenizer)
        for text in unlisted_texts(definition.word_list, definition.options, n_words):
            course.check_refused(text)
    except (CheckError, ImportError) as error:
        return {"status": f"{type(error).__name__}: {error}"}
    report["sets"] = {texts.name: _follow(course, texts) for texts in sets}
    return report | {"copy_us": percentiles(time_copies(tokenizer.num_row_words)), "status": "measured"}


def _follow(course: "Course", texts: TextSet) -> Report:
    """The checksums of the masks along the texts of the warm-up, and times, or why the engine refuses a text."""
    try:
        return {"signatures": [mask for text in texts.warm_up for mask in course.check(text)], **course.time(texts)}
    except CheckError as error:
        return {"refused": str(error)}


class Course:
    """Takes an engine along texts, token by token."""

    def __init__(self, engine: Engine, tokenizer: ModelTokenizer) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        # Engines differ on special tokens and on the bits behind the vocabulary; no text has either.
        has_text = np.array([bool(spelled) for spelled in tokenizer.facts.token_bytes])
        has_text[tokenizer.stop_token] = False
        bits = np.zeros(tokenizer.num_row_words * 32, dtype=bool)
        bits[: len(has_text)] = has_text
        self._counted = np.packbits(bits, bitorder="little").view(np.int32)

    def check(self, text: str) -> list[int]:
        """Follow a text, and return a checksum of each mask.

        Raises:
            CheckError: The engine does not allow the text.
        """
        signatures = []
        follower = self._engine.follow()
        for place, token in enumerate(self._tokens(text)):
            follower.fill()
            signatures.append(zlib.crc32((self._engine.row[: len(self._counted)] & self._counted).tobytes()))
            if not self._is_allowed(token) or not follower.accept(token):
                raise CheckError(f"{self._spell(token)}, token {place} of a listed text")
        follower.fill()
        if not self._is_allowed(self._tokenizer.stop_token):
            raise CheckError("the end of a listed text")
        return signatures

    def check_refused(self, text: str) -> None:
        """Follow a text that is none.

        Raises:
            CheckError: The engine allows the text.
        """
        follower = self._engine.follow()
        for token in self._tokens(text):
            follower.fill()
            if not self._is_allowed(token):
                return
            follower.accept(token)
        follower.fill()
        if self._is_allowed(self._tokenizer.stop_token):
            raise CheckError(f"allows {text!r}, which has an unlisted word")

    def time(self, texts: TextSet) -> Report:
        """Follow the timed texts of a set. Masks and accepted tokens in microseconds; the clock's 0.05 are in it."""
        fill_ns, accept_ns = [], []
        clock = time.perf_counter_ns
        # As `timeit` does, without the garbage collector.
        gc.disable()
        for text in texts.timed:
            tokens, (fill, accept) = self._tokens(text), self._engine.follow()
            for token in tokens:
                started = clock()
                fill()
                filled = clock()
                accept(token)
                accepted = clock()
                fill_ns.append(filled - started)
                accept_ns.append(accepted - filled)
        gc.enable()
        return {"num_masks": len(fill_ns), "mask_us": percentiles(fill_ns), "accept_us": percentiles(accept_ns)}

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer.hugging_face.encode(text, add_special_tokens=False)
        return tokens

    def _is_allowed(self, token: int) -> bool:
        return bool(self._engine.row[token >> 5] >> (token & 31) & 1)

    def _spell(self, token: int) -> str:
        return repr(self._tokenizer.facts.token_bytes[token].decode(errors="backslashreplace"))


def time_copies(num_row_words: int) -> list[int]:
    """Nanoseconds of a plain copy of a row: what a mask cannot do without."""
    row, out = np.ones(num_row_words, dtype=np.int32), np.zeros(num_row_words, dtype=np.int32)
    clock, copy = time.perf_counter_ns, np.copyto
    times = []
    for _ in range(NUM_COPIES):
        started = clock()
        copy(out, row)
        times.append(clock() - started)
    return times[NUM_COPIES // 10 :]


def percentiles(nanoseconds: list[int]) -> dict[str, float]:
    """Median, 99th percentile and largest, in microseconds."""
    values: npt.NDArray[np.float64] = np.asarray(nanoseconds) / 1000
    p50, p99 = np.percentile(values, (50, 99))
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(values.max()), 3)}


def compare_masks(results: list[Report]) -> None:
    """Replace the checksums of each engine's masks by the share of them that equal ours."""
    ours = {result["n_words"]: result.get("sets", {}) for result in results if result["engine"] == OURS}
    right = {(n, name): figures.get("signatures") for n, sets in ours.items() for name, figures in sets.items()}
    for result in results:
        for name, figures in result.get("sets", {}).items():
            theirs, known = figures.pop("signatures", None), right.get((result["n_words"], name))
            if theirs and known:
                figures["masks_equal"] = sum(map(int.__eq__, known, theirs)) / len(known)


def table(results: list[Report]) -> Iterator[str]:
    """A row for each engine, N and kind of texts."""
    yield "| words | engine | texts | compile s | mask µs, p50 · p99 · max | accept µs | masks | equal ours | copy µs |"
    yield "|---:|---|---|---:|---:|---:|---:|---:|---:|"
    for result in results:
        start = f"| {result['n_words']:,} | {result['engine']} |"
        if result["status"] != "measured":
            yield f"{start} {result['status']} |"
        for name, found in result.get("sets", {}).items():
            if "refused" in found:
                yield f"{start} {name} | refuses {found['refused']} |"
                continue
            mask = " · ".join(f"{found['mask_us'][one]:,.1f}" for one in ("p50", "p99", "max"))
            accept = " · ".join(f"{found['accept_us'][one]:,.1f}" for one in ("p50", "p99"))
            equal = f"{found['masks_equal']:.2%}" if "masks_equal" in found else "–"
            yield (
                f"{start} {name} | {result['compile_s']:.2f} | {mask} | {accept} | {found['num_masks']:,} | {equal} | "
                f"{result['copy_us']['p50']:.1f} |"
            )


if __name__ == "__main__":
    main()
