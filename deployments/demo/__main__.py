"""``make demo``: the whole service on this machine's CPU, one constrained answer, and a line to try next.

Prepares the model, starts the service, asks one question over HTTP and then serves until Ctrl-C. Variables and an
``.env`` file in the working directory go before ``configs/demo.yaml``.
"""

import fcntl
import json
import signal
import subprocess
import sys
import urllib.error
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, Final

import psutil
import yaml

from deployments.demo import CONFIG, END_MARGIN_S, DemoError, Service, free_port
from deployments.demo.model import ADAPTER, DemoModelError, say, smollm2_path
from deployments.front import FrontError
from deployments.settings.service import DEMO_TOKEN, Settings, SettingsError, cache_dir

QUESTION: Final = "Tell me a story about a dog"
N_WORDS: Final = 1000
NUM_TOKENS: Final = 80
"""A model of this size repeats itself in longer stories."""

RUN_BYTES: Final = 4 * 2**30
"""Memory that a run takes with the demo's model."""

MAX_RUNS: Final = 8
"""Runs at once."""


def _show(service: Service) -> None:
    """Ask one question and print the answer, with a command to try next, or why there is none."""
    try:
        _print(service, _ask(service))
    except OSError as error:
        say(f"the first question has no answer: {_message_of(error)}")
    print("Ctrl-C stops the service.", flush=True)


def _ask(service: Service) -> dict[str, Any]:
    """Ask one question, again while the service is busy and lives."""
    # Beams need the automaton.
    search = {"best_of": 4} if service.settings.mask_engine == "xgrammar" else {"num_beams": 4}
    limits = service.settings.limits
    allowed = limits.allowed_new_tokens or (min(NUM_TOKENS, limits.max_new_tokens),)
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "vocab": {"lang": "en", "n_words": N_WORDS, "end": "sentence"},
        "max_tokens": min(allowed, key=lambda number: abs(number - NUM_TOKENS)),
        **search,
    }
    while True:
        try:
            return service.request("/v1/chat/completions", {"model": service.model_id(), **body})
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            delay_s = int(error.headers.get("Retry-After", 1))
            say(f"the service is busy; asking again in {delay_s} s")
            with suppress(subprocess.TimeoutExpired):
                service.wait(delay_s)
                raise


def _message_of(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        with suppress(ValueError, KeyError, TypeError):
            return str(json.load(error)["error"]["message"])
    return str(error)


def _print(service: Service, answer: dict[str, Any]) -> None:
    vocabulary = answer["vocab"]
    key = DEMO_TOKEN if service.has_demo_key else "$SECRET_TOKEN"
    print(
        f"\n{QUESTION} (in the {N_WORDS:,} most frequent English words)\n\n"
        f"  {answer['choices'][0]['message']['content'].strip()}\n\n"
        f"{vocabulary['num_words']} words, {vocabulary['num_distinct_words']} distinct, "
        f"the rarest has rank {vocabulary['max_rank']}.\n\n"
        "Try next, in another terminal:\n\n"
        f'  curl {service.url}/v1/chat/completions -H "Authorization: Bearer {key}" \\\n'
        "    -H 'Content-Type: application/json' \\\n"
        f'    -d \'{{"model": "{answer["model"]}", "vocab_lang": "en", "vocab_n_words": 500,\n'
        '         "messages": [{"role": "user", "content": "Tell me about your house"}]}\'\n',
        flush=True,
    )


def _take_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """Lock the first folder of this name that no other run has; return it and the locked file."""
    for number in range(1, MAX_RUNS + 1):
        taken = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        taken.mkdir(parents=True, exist_ok=True)
        lock = (taken / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return taken, lock
    raise DemoError(f"{MAX_RUNS} runs have {folder} and those beside it; end one of them")


def _prepare(folder: Path, *, is_first: bool) -> Service:
    """Fetch the demo's model, unless another one is set, and return the service of it, which has not started."""
    given = Settings.load({"demo": True, "secret_token": DEMO_TOKEN})
    has_own_model = given.is_given("model_name")
    model = given.model_name if has_own_model else str(smollm2_path())
    usual = int(yaml.safe_load(CONFIG.read_text())["http_options"]["port"])
    # Another run may be about to take the usual one.
    port = free_port(*([usual] if is_first else []))
    return Service(model, folder, {} if has_own_model else {"lora": ADAPTER}, port)


def main() -> int:
    """Fetch the model, run the demo until it ends or Ctrl-C, and return the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    service: Service | None = None
    try:
        folder, lock = _take_folder(cache_dir() / "demo")
        service = _prepare(folder, is_first=folder.name == "demo")
        say(f"starting the service on {service.url}; its log is {service.log_path}")
        if (free := psutil.virtual_memory().available) < RUN_BYTES:
            say(
                f"{free / 2**30:.1f} GiB of memory are free, and the service takes {RUN_BYTES / 2**30:.0f}: end other "
                "programs, or the system may end a part of it, which then starts again"
            )
        say("this takes a minute or two")
        # The folder is taken as long as either process lives.
        service.start(lock)
        service.wait_until_ready()
        say("ready")
        if service.settings.page:
            # The fragment stays in the browser. For a key that is a secret the page asks.
            say(f"the page: {service.url}/{f'#key={DEMO_TOKEN}' if service.has_demo_key else ''}")
        _show(service)
        service.wait()
        say(f"the service ended; its log is {service.log_path}")
        return 1
    except KeyboardInterrupt:
        return 0
    except (DemoError, DemoModelError, FrontError, SettingsError, urllib.error.URLError) as error:
        print(f"\n{error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if service is not None:
            say("stopping; requests may finish, and Ctrl-C ends them too")
            service.stop(service.settings.drain_s + END_MARGIN_S)


if __name__ == "__main__":
    sys.exit(main())
