"""Whether an engine tells what a list costs, by engines that say what a test wants."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from deployments.replica.engine.health import reports_log_mass
from vocab.matching.log_mass import pack


class Client:
    """Answers with one token of this rank, or with nothing, or fails."""

    def __init__(self, *ranks: int | None, error: Exception | None = None) -> None:
        self._ranks = ranks
        self._error = error
        self.params: Any = None

    async def generate(self, prompt: str, params: Any, request_id: str, *, reasoning_ended: bool) -> AsyncIterator[Any]:
        # Else an engine would wait for a model that thinks to be done with it.
        assert reasoning_ended
        assert prompt
        assert request_id
        self.params = params
        if self._error is not None:
            raise self._error
        for rank in self._ranks:
            yield SimpleNamespace(outputs=[SimpleNamespace(logprobs=[{7: SimpleNamespace(rank=rank, logprob=-1.0)}])])


async def test_an_engine_that_reports_masses_tells_the_cost() -> None:
    client = Client(pack(-0.5, -0.5))
    assert await reports_log_mass(client, "the grammar")
    assert client.params.structured_outputs.grammar == "the grammar"
    assert (client.params.max_tokens, client.params.logprobs) == (1, 0)


@pytest.mark.parametrize("client", [Client(1), Client(None), Client(), Client(error=ValueError("no logprobs"))])
async def test_any_other_does_not(client: Client) -> None:
    assert not await reports_log_mass(client, "the grammar")
