"""One engine at one N, in a process of its own: `python -m benchmarks.arm '<job as JSON>'`.

It prepares, compiles, checks the engine against texts, which warms it up too, and times it on other texts. What it
knows so far is in its report file at any moment: a process that is killed leaves it behind.
"""

import gc
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.engines import Definition, Engine, ModelTokenizer, make_engine
from benchmarks.machine import memory_mib, use_one_core
from benchmarks.texts import OPTIONS, TextSet, text_sets, unlisted_texts
from vocab.automaton.tokenizer import Speller
from vocab.lists.wordlists import load_word_list

NUM_COPIES: Final = 2_000

Report = dict[str, Any]


class CheckError(Exception):
    """The engine allows other texts than the definition."""


def main() -> None:
    job = json.loads(sys.argv[1])
    use_one_core()
    report = ReportFile(Path(job["report"]))
    try:
        run(job, report)
    except ModuleNotFoundError as error:
        report.note(status="not installed", message=str(error))
    except CheckError as error:
        report.note(status="wrong", message=str(error))
    except Exception as error:  # whatever an engine raises is its result
        report.note(status="failed", message=f"{type(error).__name__}: {error}"[:500])


class ReportFile:
    """What is known so far, as JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: Report = {"status": "running"}

    def note(self, **facts: Any) -> None:
        self._facts |= facts
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(self._facts))
        temporary.replace(self._path)


def run(job: Report, report: ReportFile) -> None:
    report.note(phase="preparing")
    tokenizer = load_model_tokenizer(job["tokenizer"])
    definition = Definition(load_word_list(job["lang"], None), OPTIONS, job["n_words"])
    sets = text_sets(definition.word_list, definition.n_words)
    started = time.perf_counter()
    engine = make_engine(job["engine"], tokenizer)
    report.note(note=engine.note, prepare_s=time.perf_counter() - started)
    grammar = definition.grammar(engine.reads)

    report.note(grammar_bytes=len(grammar.encode()), phase="compiling")
    before = memory_mib()
    compiled = engine.compile(definition)
    report.note(compile_s=compiled.seconds, artefact_bytes=compiled.artefact_bytes, phase="checking")

    course = Course(engine, tokenizer)
    for text in unlisted_texts(definition.word_list, definition.options, definition.n_words):
        course.check_refused(text)
    checked = {texts.name: check_set(course, texts) for texts in sets}
    report.note(sets=checked, phase="timing")

    for texts in sets:
        if "refused" not in checked[texts.name]:
            checked[texts.name] |= course.time(texts)
    after = memory_mib()
    report.note(
        sets=checked,
        copy_us=percentiles(time_copies(tokenizer.num_row_words)),
        added_mib=after.resident - before.resident,
        added_file_mib=after.of_files - before.of_files,
        peak_mib=after.peak,
        status="refused" if all("refused" in figures for figures in checked.values()) else "measured",
        phase="done",
    )


def check_set(course: "Course", texts: TextSet) -> Report:
    """The checksums of the masks along the texts of the warm-up, or why the engine refuses one."""
    try:
        return {"mask_signatures": [mask for text in texts.warm_up for mask in course.check(text)]}
    except CheckError as error:
        return {"refused": str(error)}


def load_model_tokenizer(path: str) -> ModelTokenizer:
    """Reads a tokenizer from a folder or a Hugging Face id."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    return ModelTokenizer(path, tokenizer, Speller.from_tokenizer(tokenizer), tokenizer.eos_token_id)


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
        """Follows a text and tells the masks met from one another, by a checksum of each.

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
        """Follows a text that is none.

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
        """Follows the timed texts of a set. Masks and accepted tokens in microseconds; the clock's 0.05 are in it."""
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


if __name__ == "__main__":
    main()
