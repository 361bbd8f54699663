"""Choose the replica of each request: none whose engine stands still, and the one that may hold the prompt's beginning.

Ray Serve's own router takes the less busy of two random replicas, so that a conversation goes to another replica with
each turn, which reads all of it again. Here every ingress prefers the same replica for prompts of one key that begin
alike, by rendezvous hashing: where a replica comes or goes, only its own prompts move. Where that replica is much
busier than another, Serve's rule decides. How busy it is counts in sequences: Serve knows requests, and one may have
eight answers or sixteen beams.
"""

import asyncio
import hashlib
import random
from collections import Counter
from typing import Any, Final

from ray.serve.request_router import PendingRequest, ReplicaID, ReplicaResult, RequestRouter, RunningReplica
from typing_extensions import override

from deployments.contract import TextRequest

STALLED: Final = "engine_is_stalled"
"""Of a replica's routing statistics: its engine has had requests and made no step for a while."""

NUM_SEQUENCES: Final = "num_sequences"
"""Of a replica's routing statistics: how many sequences it has and how many wait for their turn, of all ingresses."""

STATS_PERIOD_S: Final = 2.0
"""How often Serve's controller asks replicas for them."""

PREFIX_CHARS: Final = 1024
"""Prompts that begin with the same characters are alike: some 250 tokens, a long system prompt or a first turn."""

_MAX_TIMES: Final = 1.5
_MAX_EXTRA: Final = 8
"""The preferred replica may have so many times the sequences of the least busy one, and so many more."""


class ReplicaRouter(RequestRouter):
    """Route by the engine's state, the prompt's beginning, and the load, in this order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._num_sent: Counter[ReplicaID] = Counter()
        """Sequences that this process has sent and that have not come back."""

    @override
    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult) -> None:
        """Count the sequences of a request that a replica has taken until its answer has come."""
        loop, number = asyncio.get_running_loop(), _num_sequences(pending_request.args)
        self._num_sent[replica_id] += number
        # From a thread of Ray's.
        result.add_done_callback(lambda _: loop.call_soon_threadsafe(self._forget, replica_id, number))

    def _forget(self, replica_id: ReplicaID, number: int) -> None:
        self._num_sent[replica_id] -= number
        if not self._num_sent[replica_id]:
            # Replicas come and go.
            del self._num_sent[replica_id]

    @override
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the preferred replica, if any, and then two at random, of which Serve takes the less busy one."""
        if pending_request is not None:
            # Else Serve would try again at once, and without end.
            pending_request.routing_context.should_backoff = True
        # Where all stand still, one of them may yet go on.
        running = [one for one in candidate_replicas if not one.routing_stats.get(STALLED)] or candidate_replicas
        two = random.sample(running, min(2, len(running)))
        prefix = None if pending_request is None or len(running) < 2 else prompt_prefix(pending_request.args)
        if prefix is None:
            return [two]
        preferred = max(running, key=lambda one: _weight(prefix, one.replica_id.unique_id))
        return [two] if self._is_busy(preferred, running) else [[preferred], two]

    def _is_busy(self, preferred: RunningReplica, running: list[RunningReplica]) -> bool:
        return self._load(preferred) > _MAX_TIMES * min(map(self._load, running)) + _MAX_EXTRA

    def _load(self, replica: RunningReplica) -> int:
        """Return how many sequences a replica has: of this process, of all as it last said, or at least requests."""
        return max(
            self._num_sent[replica.replica_id],
            int(replica.routing_stats.get(NUM_SEQUENCES, 0)),
            self.replica_queue_len_cache.get(replica.replica_id) or 0,
        )


def _num_sequences(arguments: list[Any]) -> int:
    request = arguments[0] if arguments else None
    return request.num_sequences if isinstance(request, TextRequest) else 1


def prompt_prefix(arguments: list[Any]) -> bytes | None:
    """Return what prompts of one key that begin alike have in common; None for what has no prompt of a client's."""
    request = arguments[0] if arguments else None
    if not isinstance(request, TextRequest):
        return None
    parts, num_chars = [request.caller.owner], 0
    for message in request.body.get("messages") or [{"content": request.body.get("prompt")}]:
        most = PREFIX_CHARS - num_chars
        # A text, parts of one, or tokens: cut before it is copied, for it may have a million characters.
        part = str((message.get("content") or "")[:most])[:most]
        parts.append(part)
        num_chars += len(part)
        if num_chars >= PREFIX_CHARS:
            break
    return "\0".join(parts).encode(errors="surrogatepass")


def _weight(prefix: bytes, replica_id: str) -> bytes:
    return hashlib.blake2b(replica_id.encode() + prefix, digest_size=8).digest()
