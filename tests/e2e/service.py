"""What the tests of the real application share: its lists, a client, and one way to ask."""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import openai
import psutil
import wordfreq

from deployments.process_setup import READY_HOOK
from tests.event_loop_watch import BLOCKED, WATCHED
from tests.harness import Demo
from tests.pages import ROOT

KEY = "changeme"
KEYS = {"loud": "key-of-loud", "other": "key-of-other"}
"""Two more keys of the running application, by name."""

MODEL = "SmolLM2-135M-Instruct"

PAGE = "https://page.example.com"
"""The origin of a web page that may ask."""

LONG_WORD = "Donaudampfschiffahrtselektrizitätenhauptbetriebswerkbauunter"

LISTS: dict[str, tuple[str, ...]] = {
    "en-odd": (
        "the", "a", "is", "dog", "catalogue", "don't", "l'", "well-known", "in front of", "café", "naïve",
        'so"called', "(sic)", "über", "goin'", "Monday", LONG_WORD, "rock'n'roll", "[x]", "back\\slash", "it",
    ),
    "fr-odd": ("l'", "homme", "est", "là", "un", "chien", "l'un", "d'", "eau", "aujourd'hui"),
    "en-school": tuple(islice((word for word in wordfreq.iter_wordlist("en") if word.isalpha()), 1500)),
    "prefixes": ("the", "international", "house", "seventeen", "understanding", "in", "a"),
}  # fmt: skip
"""The 60-letter word is long for a reason; "so"called" and its like hold marks that a text may also have."""

LONGEST_CALLBACK_S = 3.0
"""The service logs what blocks a loop for a sixth of it; a machine that runs tests may be as much slower."""

ASKED = set[str]()
"""Questions of all tests: none may be in a log or metric."""

LEAST_SECRET = 12
"""Characters of a question that nothing else contains by chance."""

_BLOCKED_S = re.compile(rf"{BLOCKED} (\d+\.\d+) s")

Vocabulary = tuple[str, int] | dict[str, Any] | None
"""List and N as the two flat fields, or the object ``vocab``."""


@dataclass(frozen=True)
class Answer:
    """One answer, however it was asked for."""

    text: str
    finish_reason: str
    vocab: dict[str, Any] | None


@dataclass(frozen=True)
class Service:
    """The running application."""

    url: str
    client: openai.OpenAI
    log_path: Path

    def ask(self, question: str, vocabulary: Vocabulary = None, **fields: Any) -> Answer:
        """Asks one question; ``stream=True`` reads the answer as a stream."""
        made = self.start(question, vocabulary, **fields)
        if fields.get("stream"):
            return read_stream(made)
        choice = made.choices[0]
        return Answer(choice.message.content, choice.finish_reason, (made.model_extra or {}).get("vocab"))

    def start(self, question: str, vocabulary: Vocabulary = None, **fields: Any) -> Any:
        """Asks one question, for what the ``openai`` package gives back."""
        extra: dict[str, Any] = {}
        if isinstance(vocabulary, tuple):
            extra = {"vocab_lang": vocabulary[0], "vocab_n_words": vocabulary[1]}
        elif vocabulary is not None:
            extra = {"vocab": vocabulary}
        extra |= fields.pop("extra_body", {})
        messages = [{"role": "user", "content": question}]
        ASKED.add(question)
        create: Any = self.client.chat.completions.create
        return create(model=MODEL, messages=messages, extra_body=extra, **fields)

    def tokens_of(self, word: str) -> set[int]:
        """Tokens of the model's own spelling of a word: those of a text in which nothing else may stand."""
        vocab = {"words": [word], "case": "listed", "punctuation": "none"}
        made = self.start(
            f"{word} {word} {word}", vocab, max_tokens=60, temperature=0, extra_body={"return_token_ids": True}
        )
        choice = made.choices[0]
        tokens: list[int] = choice.model_extra["token_ids"]
        return set(tokens[:-1] if choice.finish_reason == "stop" else tokens)

    def num_compiles(self, digest: str | None = None, *, at_least: int = 0) -> int:
        """Compiles in the log, of one artefact or of all; waits a little for as many, for the log comes late."""
        name = ".{12}" if digest is None else digest[:12]
        pattern = re.compile(rf"compiled \d+ words in [\d.]+ s, artefact {name}")
        deadline = time.monotonic() + 5
        while True:
            found = len(pattern.findall(self.log_path.read_text(errors="replace")))
            if found >= at_least or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


@contextmanager
def running(demo: Demo, *, timeout_s: float = 300) -> Iterator[Service]:
    """Starts the application and yields it when it is ready; on leaving, none of its processes is left."""
    # Each of its processes imports the watch, wherever it starts.
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    demo.variables |= {READY_HOOK: "tests.event_loop_watch:watch_event_loop", "PYTHONPATH": paths}
    demo.start()
    try:
        demo.wait_until_ready()
        with openai.OpenAI(base_url=f"{demo.url}/v1", api_key=KEY, max_retries=0, timeout=timeout_s) as client:
            yield Service(demo.url, client, demo.log_path)
        pids = demo.processes()
        folders, metrics = log_folders(pids), read_metrics(demo.log_path)
        # A test may have ended it.
        assert folders or not pids, "Ray's logs were not found"
    finally:
        demo.stop()
    assert not demo.processes(), "a process outlived the service"
    assert_no_loop_was_blocked(demo.log_path)
    assert_nothing_secret_is_in([demo.log_path, *folders], metrics)


def log_folders(pids: Iterable[int]) -> set[Path]:
    """Where the Ray of these processes writes its logs."""
    found = set[Path]()
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found |= {
                Path(folder) for folder in re.findall(r"--log_dir=(\S+)", " ".join(psutil.Process(pid).cmdline()))
            }
    return found


def read_metrics(log_path: Path) -> bytes:
    """What Prometheus would read of a service; nothing where it is ending."""
    found = re.findall(r"metrics: (http\S+)", log_path.read_text(errors="replace"))
    with suppress(httpx2.TransportError):
        return b"".join(httpx2.get(url, timeout=30).content for url in found[-1:])
    return b""


def assert_nothing_secret_is_in(paths: Iterable[Path], metrics: bytes) -> None:
    """Fails where a key, or a question that a test has asked so far, is in a log or metric."""
    secrets = [*KEYS.values(), *(text for text in ASKED if len(text) >= LEAST_SECRET)]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    for name, written in [("metrics", metrics), *((str(file), file.read_bytes()) for file in files)]:
        for secret in secrets:
            assert secret.encode(errors="replace") not in written, f"{secret!r} is in {name}"


def assert_no_loop_was_blocked(log_path: Path) -> None:
    """Fails where one request kept all others of a process waiting, whichever test sent it."""
    lines = log_path.read_text(errors="replace").splitlines()
    assert any(WATCHED in line for line in lines), "no event loop was watched"
    blocked = [line for line in lines if (match := _BLOCKED_S.search(line)) and float(match[1]) > LONGEST_CALLBACK_S]
    assert not blocked, "\n".join(blocked)


def read_stream(chunks: Any) -> Answer:
    text, finish_reason, vocab, is_last = "", "", None, False
    for chunk in chunks:
        assert not is_last, "a chunk came after the one with the vocab block"
        vocab = (chunk.model_extra or {}).get("vocab")
        is_last = vocab is not None
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
    return Answer(text, finish_reason, vocab)
