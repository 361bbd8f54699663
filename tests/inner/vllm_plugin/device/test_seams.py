"""Which texts the device follows, and why it does not follow the others."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams

from tests.vocab.toys import STOP, toy_states
from vocab.matching.controls import Controls
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference, write_client_grammar
from vocab.options import DEFAULT_OPTIONS
from vocab.vllm_plugin.device import NotMaskedError, seams

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

KERNELS = tuple(f"{seams.__package__}.{name}" for name in ("kernels", "slots", "tables"))
STATES, FACTS = toy_states(["sol", "mar"])


class Requests:
    """A model runner's table of requests."""

    max_num_reqs: int
    req_id_to_index: dict[str, int]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the log says, in a process with one runner whose slots are there."""
    messages, requests = list[str](), Requests()
    monkeypatch.setattr(seams.logger, "info", lambda message, *values: messages.append(message % values))
    monkeypatch.setattr(seams, "_is_installed", True)
    monkeypatch.setattr(seams, "_reported", set())
    monkeypatch.setattr(seams, "_runners", {requests: runner()})
    yield messages


def runner(table: Any = "the table", num_tokens: int = 512) -> Any:
    return SimpleNamespace(tables=SimpleNamespace(of=lambda _: table), num_dead=2, num_tokens=num_tokens)


def config(num_workers: int = 1, drafts: Any = None, thinks: str = "", connector: Any = None) -> Any:
    return SimpleNamespace(
        parallel_config=SimpleNamespace(world_size=num_workers),
        speculative_config=drafts,
        structured_outputs_config=SimpleNamespace(reasoning_parser=thinks),
        kv_transfer_config=connector,
    )


def text(stops: Any = (STOP,), start: Any = None, of: Any = None, **fields: Any) -> tuple[Matcher, GrammarReference]:
    reference = GrammarReference("0" * 64, DEFAULT_OPTIONS, 2, **fields)
    matcher = Matcher(STATES, stops, fields.get("max_tokens"), start=start)
    if of is not None:
        matcher.states = of
    return matcher, reference


def test_a_text_of_a_list_has_a_table(log: list[str]) -> None:
    for fields in ({}, {"max_tokens": 9, "no_repeat": 4, "min_tokens": 2}, {"stops": (0, 1, 2, 3, 4, 5, 6, 7)}):
        found = seams.text_of(*text(**fields), config(connector=SimpleNamespace(kv_load_failure_policy="fail")))
        assert found is not None and found.table == "the table"
    assert log == []
    assert seams.num_dead() == 2


@pytest.mark.parametrize(
    ("config_fields", "fields", "reason"),
    [
        ({"num_workers": 2}, {}, "the model is spread over several GPUs"),
        ({"drafts": object()}, {}, "the engine drafts"),
        ({"thinks": "qwen3"}, {}, "the model thinks first"),
        (
            {"connector": SimpleNamespace(kv_load_failure_policy="recompute")},
            {},
            "the engine computes again what a connector fails to load",
        ),
        ({}, {"controls": Controls(max_sentences=2)}, "a text has controls, or is JSON"),
        ({}, {"of": object()}, "a list is of a language without spaces"),
        ({}, {"stops": ()}, "a text has not 1 to 8 stop tokens"),
        ({}, {"stops": range(9)}, "a text has not 1 to 8 stop tokens"),
        ({}, {"start": tuple(range(-9, 0))}, "a text has more than 8 readings"),
        ({}, {"no_repeat": 4}, "a text may have more than 8192 tokens"),
        ({}, {"no_repeat": 4, "max_tokens": 8192, "seen": (3,)}, "a text may have more than 8192 tokens"),
    ],
)
def test_other_texts_are_masked_on_the_cpu_and_the_log_says_why_once(
    config_fields: dict[str, Any], fields: dict[str, Any], reason: str, log: list[str]
) -> None:
    for _ in range(2):
        assert seams.text_of(*text(**fields), config(**config_fields)) is None
    assert log == [f"Masks are made on the CPU: {reason}"]


def test_so_are_all_without_the_hooks_the_room_or_the_logits(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for runners in ({}, {Requests(): runner(), "another": runner()}):
        monkeypatch.setattr(seams, "_runners", runners)
        assert seams.text_of(*text(), config()) is None
    monkeypatch.setattr(seams, "_runners", {"one": runner(num_tokens=len(FACTS) - 1)})
    assert seams.text_of(*text(), config()) is None
    assert log.pop() == "Masks are made on the CPU: the tokenizer has more tokens than the model"
    monkeypatch.setattr(seams, "_is_installed", False)
    assert seams.text_of(*text(), config()) is None
    assert log.pop() == "Masks are made on the CPU: this vLLM has other seams"


def begin_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a runner does when vLLM measures memory, on a device of which it is the first."""
    monkeypatch.setattr(seams, "_runners", {})
    monkeypatch.setattr(seams, "DEVICE_TYPE", "cpu")
    requests = Requests()
    requests.max_num_reqs = 4
    assert seams.rows_of(SimpleNamespace(req_states=requests), torch.zeros((2, 512)), None) is None


def test_without_triton_or_a_gpu_masks_are_made_on_the_cpu_and_the_log_says_so_once(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Triton has no kernel for a CPU.
    begin_sampling(monkeypatch)
    assert seams.text_of(*text(), config()) is None
    assert "Error: " in log.pop()
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton" or name.startswith(KERNELS)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)
    begin_sampling(monkeypatch)
    for _ in range(2):
        assert seams.text_of(*text(), config()) is None
    [message] = log
    assert message.startswith("Masks are made on the CPU: ModuleNotFoundError: import of triton")


@pytest.mark.parametrize(
    ("num_bytes", "reason"), [("0", "WORDBOUND_DEVICE_BYTES is 0"), ("many", "ValueError: invalid literal for int()")]
)
def test_without_memory_for_lists_there_are_no_slots(
    num_bytes: str, reason: str, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(seams.TABLE_BYTES_VARIABLE, num_bytes)
    begin_sampling(monkeypatch)
    assert seams.text_of(*text(), config()) is None
    [message] = log
    assert message.startswith(f"Masks are made on the CPU: {reason}")


def test_a_text_in_another_slot_is_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, slots = Requests(), SimpleNamespace(rows=lambda index: np.flatnonzero(index == 1))
    requests.req_id_to_index = {"a": 0, "b": 1}
    monkeypatch.setattr(seams, "_runners", {requests: slots})
    sampler, logits = SimpleNamespace(req_states=requests), torch.zeros((2, 512))

    def rows(*names: str) -> Any:
        return seams.rows_of(sampler, logits, SimpleNamespace(req_ids=names, idx_mapping_np=np.array([0, 1])))

    assert rows("a", "b")[1].tolist() == [1]
    assert rows("dummy 1", "dummy 2") is None
    with pytest.raises(NotMaskedError, match="the request a is not in the slot"):
        rows("b", "a")


def test_a_clients_grammar_cannot_say_that_the_device_masks_it(log: list[str]) -> None:
    def add(grammar: str) -> None:
        params = SamplingParams(structured_outputs=StructuredOutputsParams(grammar=grammar))
        model_runner = SimpleNamespace(req_states=Requests())
        new = SimpleNamespace(req_id="r", sampling_params=params, prefill_token_ids=[], prompt_len=0)
        seams._add_requests(lambda *_: None, model_runner, SimpleNamespace(scheduled_new_reqs=[new]))

    for grammar in ('root ::= "a"\n# on the device\n', f"start: /a/\n{text()[1].to_ebnf()}# on the device\n"):
        add(write_client_grammar(grammar))
    with pytest.raises(NotMaskedError, match="has no table in this process"):
        add(text()[1].to_ebnf() + "# on the device\n")
