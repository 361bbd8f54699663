"""What the service measures of itself, as metrics of Ray's: Prometheus reads them at each node's metrics port.

Ray adds ``ray_`` before each name, and labels of node and process. vLLM's own metrics (``ray_vllm_…``) and Serve's
(``ray_serve_…``) are beside them. Labels have names of keys and routes, never a key, a prompt, an answer or a word.
"""

import asyncio
import urllib.request
from collections.abc import Callable
from typing import Final

import ray
from ray.util.metrics import Counter, Gauge, Histogram

from vocab.vllm_plugin import MaskCounts

_SECONDS: Final = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0]

REQUESTS: Final = Counter(
    "wordbound_requests_total",
    "Requests answered, or left by their clients (status 499).",
    ("route", "status", "key"),
)
REQUEST_SECONDS: Final = Histogram(
    "wordbound_request_seconds", "From a request's headers to the end of its answer.", _SECONDS, ("route",)
)
FIRST_BYTE_SECONDS: Final = Histogram(
    "wordbound_first_byte_seconds",
    "From a request's headers to the start of its answer; of a stream, its first token.",
    _SECONDS,
    ("route",),
)
REFUSALS: Final = Counter(
    "wordbound_refusals_total", "Requests and streams that failed, by the error's code.", ("code",)
)
ANSWERS: Final = Counter("wordbound_answers_total", "Chats and completions that a replica answered.", ("constrained",))
WORDS: Final = Counter("wordbound_words_total", "Words of constrained answers.")
LOG_MASS: Final = Histogram(
    "wordbound_log_mass_per_word",
    "How much the list costs: minus the log of the probability that the masks left, nats a word; of answers that "
    "measure it.",
    [0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0],
)
MASK_SECONDS: Final = Counter("wordbound_mask_seconds_total", "Time in which an engine filled masks.")
MASKS: Final = Counter("wordbound_masks_total", "Masks that an engine filled, one a token of a constrained sequence.")
TEXTS: Final = Counter("wordbound_masked_texts_total", "Constrained sequences that began, by where masked.", ("where",))
DEAD_MASKS: Final = Counter("wordbound_dead_masks_total", "Masks of texts on a GPU that had left their list: a fault.")
SEQUENCES: Final = Gauge(
    "wordbound_sequences", "Sequences of requests at a replica, those of batches apart.", ("state",)
)
LIST_CACHE_BYTES: Final = Gauge("wordbound_list_cache_bytes", "Compiled lists in a replica's memory.")
LISTS: Final = Counter(
    "wordbound_lists_total",
    "Lists asked for, by where they were: known (in memory), stored (as a file), compiled.",
    ("found",),
)
COMPILE_SECONDS: Final = Histogram(
    "wordbound_compile_seconds", "Time of a list's compile, its turn not counted.", _SECONDS
)
BATCHES: Final = Gauge("wordbound_batches", "Batches that have not ended.", ("state",))
BATCH_LINES: Final = Gauge("wordbound_batch_lines", "Lines of batches that have not ended, without an answer.")

_REPORT_S: Final = 5.0
_READ_S: Final = 5.0


def metrics_url() -> str:
    """Return where the metrics of this process's node can be read."""
    [node] = (node for node in ray.nodes() if node["NodeID"] == ray.get_runtime_context().get_node_id())
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def read_metrics() -> bytes:
    """Return the metrics of this process's node; ``OSError`` where they cannot be read."""
    # The node is no further than this process: no proxy of the environment is asked.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(metrics_url(), timeout=_READ_S) as answer:
        text: bytes = answer.read()
    return text


async def report_replica(
    masks: Callable[[], MaskCounts],
    num_running: Callable[[], int],
    num_waiting: Callable[[], int],
    cache_bytes: Callable[[], int],
) -> None:
    """Report a replica's state every five seconds, until cancelled.

    ``masks`` counts what its engine has masked.
    """
    before = MaskCounts()
    while True:
        now = masks()
        new = now.since(before)
        # Counters take no zero.
        if new.num_masks:
            MASKS.inc(new.num_masks)
            MASK_SECONDS.inc(new.seconds)
        for where, number in (("device", new.num_on_device), ("cpu", new.num_texts - new.num_on_device)):
            if number:
                TEXTS.inc(number, {"where": where})
        if new.num_dead > 0:
            DEAD_MASKS.inc(new.num_dead)
        before = now
        SEQUENCES.set(num_running(), {"state": "running"})
        SEQUENCES.set(num_waiting(), {"state": "waiting"})
        LIST_CACHE_BYTES.set(cache_bytes())
        await asyncio.sleep(_REPORT_S)
