"""How functions of vLLM are replaced, which ones, and the faults of vLLM that are mended so.

Whole engines have them in ``tests/e2e/test_log_mass.py`` and ``tests/wordbound/lm/test_vllm_adapters.py``.
"""

import importlib
import pkgutil
import time
from typing import Any

import pytest
import torch
import vllm
from vllm.entrypoints.serve.exception_handling import error_response
from vllm.lora.ops.torch_ops import lora_ops
from vllm.lora.punica_wrapper import punica_cpu
from vllm.v1.worker.gpu_input_batch import CachedRequestState

import vocab.vllm_plugin
from tests.vocab.vllm_plugin.originals import restore_afterwards
from vocab.vllm_plugin import patches
from vocab.vllm_plugin.patches import CPU_ADAPTERS, CPU_SEEDS, MAX_MESSAGE_CHARS, PatchGroup

PATCHED = {
    "vllm.entrypoints.serve.exception_handling.error_response:sanitize_message",
    "vllm.lora.ops.torch_ops.lora_ops:bgmv_expand",
    "vllm.lora.ops.torch_ops.lora_ops:bgmv_expand_slice",
    "vllm.lora.punica_wrapper.punica_cpu:bgmv_expand",
    "vllm.lora.punica_wrapper.punica_cpu:bgmv_expand_slice",
    "vllm.outputs:RequestOutput.add",
    "vllm.v1.core.block_pool:BlockPool.reset_prefix_cache",
    "vllm.v1.core.sched.scheduler:Scheduler._try_promote_blocked_waiting_request",
    "vllm.v1.core.sched.scheduler:Scheduler.add_request",
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
    "vllm.v1.engine.logprobs:LogprobsProcessor._update_prompt_logprobs",
    "vllm.v1.sample.sampler:Sampler.forward",
    "vllm.v1.structured_output:StructuredOutputManager.grammar_bitmask",
    "vllm.v1.structured_output:StructuredOutputManager.trim_reasoning_for_advance",
    "vllm.v1.worker.gpu.model_runner:GPUModelRunner.add_requests",
    "vllm.v1.worker.gpu.sample.prompt_logprob:PromptLogprobsWorker.compute_prompt_logprobs",
    "vllm.v1.worker.gpu.sample.sampler:Sampler.__call__",
    "vllm.v1.worker.gpu.sample.sampler:Sampler.add_request",
    "vllm.v1.worker.gpu.states:RequestState.remove_request",
    "vllm.v1.worker.gpu.structured_outputs:StructuredOutputsWorker.apply_grammar_bitmask",
    "vllm.v1.worker.gpu_input_batch:CachedRequestState.__post_init__",
    "vllm.v1.worker.gpu_input_batch:InputBatch.add_request",
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._get_prompt_logprobs_dict",
    "vllm.v1.worker.gpu_model_runner:apply_grammar_bitmask",
}
"""All of vLLM that is replaced, besides its xgrammar backend."""


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(patches.logger, "warning", lambda message, *values: messages.append(message % values))
    return messages


def test_each_function_of_vllm_is_patched_once_and_is_what_its_patch_was_written_for(
    monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    modules = [
        importlib.import_module(f"vocab.vllm_plugin.{name}")
        for name in (*(module.name for module in pkgutil.iter_modules(vocab.vllm_plugin.__path__)), "device.seams")
    ]
    values = [value for module in modules for value in vars(module).values()]
    values += [one for value in values if isinstance(value, tuple) for one in value]
    groups = {id(value): value for value in values if isinstance(value, PatchGroup)}.values()
    targets = [patch.target for group in groups for patch in group.patches if patch.wrapper is not None]
    assert sorted(targets) == sorted(PATCHED)
    before = [restore_afterwards(monkeypatch, target) for target in targets]
    for _ in range(2):
        assert all(group.install() for group in groups)
    assert log == []
    for owner, name, function in before:
        assert getattr(owner, name).__wrapped__ is function, name
    assert CPU_SEEDS.vllm_versions == CPU_ADAPTERS.vllm_versions == {"0.29"}


def test_nothing_is_patched_where_one_target_has_changed_or_vllm_is_of_another_version(
    monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    before = [restore_afterwards(monkeypatch, patch.target) for patch in CPU_ADAPTERS.patches]

    def is_patched() -> bool:
        return any(getattr(owner, name) is not function for owner, name, function in before)

    for version in ("0.30.0", "0.2.9", "1.29"):
        monkeypatch.setattr(vllm, "__version__", version)
        assert not CPU_ADAPTERS.install() and not is_patched()
        assert f"vLLM is {version}, and this was tried on 0.29" in log.pop()
    monkeypatch.setattr(vllm, "__version__", "0.29.3+cpu")
    *_, (owner, name, function) = before

    def changed(inputs: torch.Tensor, lora_b_weights: torch.Tensor, times: int = 1) -> None:
        raise NotImplementedError

    monkeypatch.setattr(owner, name, changed)
    assert not CPU_ADAPTERS.install()
    monkeypatch.setattr(owner, name, function)
    assert not is_patched()
    message = log.pop()
    assert message.startswith(f"{CPU_ADAPTERS.lost}: vllm.lora.punica_wrapper.punica_cpu:{name} has the signature ")
    assert f"(inputs, lora_b_weights, times=1), not {CPU_ADAPTERS.patches[-1].signature}" in message
    monkeypatch.delattr(owner, name)
    assert not CPU_ADAPTERS.install()
    assert name in log.pop() and log == []
    monkeypatch.setattr(owner, name, function, raising=False)
    assert CPU_ADAPTERS.install() and is_patched()


# Faults of vLLM.


def test_a_long_message_is_truncated_before_vllm_looks_for_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, sanitize = restore_afterwards(monkeypatch, f"{error_response.__name__}:sanitize_message")
    for _ in range(2):
        patches.limit_sanitized_messages()
    start = time.process_time()
    made = error_response.create_error_response(ValueError("Cannot find " + "/a" * 15_000))
    assert time.process_time() - start < 1
    assert len(made.error.message) == MAX_MESSAGE_CHARS and made.error.message.startswith("Cannot find /a")
    start = time.process_time()
    error_response.sanitize_message("/a" * (MAX_MESSAGE_CHARS // 2))
    assert time.process_time() - start < 0.1
    short = "Cannot read /usr/lib/python/x.py at <a at 0x7f>."
    assert error_response.sanitize_message(short) == sanitize(short)


def test_on_a_cpu_a_token_without_an_adapter_gets_nothing_added(monkeypatch: pytest.MonkeyPatch) -> None:
    for patch in CPU_ADAPTERS.patches:
        restore_afterwards(monkeypatch, patch.target)
    assert CPU_ADAPTERS.install()
    inputs, weights = torch.ones(3, 2), torch.ones(2, 4, 2)
    for module in (lora_ops, punica_cpu):
        for name, where in (("bgmv_expand", ()), ("bgmv_expand_slice", (0, 4))):
            output = torch.zeros(3, 4)
            getattr(module, name)(inputs, weights, output, torch.tensor([0, -1, 1]), *where, add_inputs=True)
            assert output.tolist() == [[2.0] * 4, [0.0] * 4, [2.0] * 4]
            assert inputs.tolist() == [[1.0, 1.0]] * 3
    # Of prompts.
    output, starts, lengths = torch.zeros(5, 4), torch.tensor([0, 2]), torch.tensor([2, 3])
    lora_ops.sgmv_expand(
        torch.ones(5, 2), torch.ones(1, 4, 2), output, starts, lengths, torch.tensor([-1, 0]), 2, 3, 5, add_inputs=True
    )
    assert output.sum(1).tolist() == [0, 0, 8, 8, 8]


def test_on_a_cpu_a_request_with_a_seed_draws_as_before_and_can_take_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def generator_of(given: torch.Generator | None) -> Any:
        return CachedRequestState("a", [1], [], None, given, ([0],), 0, []).generator

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(5)

    def drawn(generator: torch.Generator) -> list[float]:
        return [float(value) for value in torch.rand(3, generator=generator)]

    restore_afterwards(monkeypatch, CPU_SEEDS.patches[0].target)
    assert CPU_SEEDS.install()
    generator = generator_of(seeded())
    first = drawn(generator)
    assert first == drawn(seeded())
    # As vLLM does after each step of a prompt but the last.
    generator.set_offset(generator.get_offset() - 4)
    assert drawn(generator) == first
    assert generator_of(None) is None
    assert generator_of(generator) is generator
