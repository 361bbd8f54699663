"""vLLM's own scheduler and manager of structured outputs with the plugin, before a worker that stands in for a GPU's.

The worker keeps its requests in vLLM's own table, and calls what the plugin does in vLLM's sampler; its logits are
random. All runs in one process, where Triton interprets; the functions below are what the tests call there.
"""

import itertools
import os
import time
from collections import Counter, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, PreTrainedTokenizerFast
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import LogprobsTensors, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.worker.gpu.states import RequestState

from benchmarks.gpu.steps import StepCounters, switch_masks
from tests.small_tokenizer import STOP, small_speller
from tests.vocab.toys import word_list
from tests.vocab.vllm_plugin.manager import Manager, installed_plugin
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.matching.controls import Controls
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.log_mass import MARK
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.vllm_plugin import own_probabilities
from vocab.vllm_plugin.device import seams
from vocab.vllm_plugin.device.kernels import SLOT

NUM_SLOTS = 4
BLOCK_SIZE = 16
WORDS = ("the", "dog", "runs", "a cat", "cat")


def write_model(folder: Path) -> None:
    """Write a model of few tokens, as far as a scheduler reads one."""
    backend = Tokenizer.from_str(small_speller(WORDS[:3]).rules)
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<stop>").save_pretrained(folder)
    # More tokens than the tokenizer has, as many models do.
    LlamaConfig(
        vocab_size=320, hidden_size=64, num_attention_heads=1, num_hidden_layers=1, architectures=["LlamaForCausalLM"]
    ).save_pretrained(folder)


class _Column:
    """What the worker stands in for: a tensor that is written in stages."""

    def __init__(self) -> None:
        self.np = np.zeros(NUM_SLOTS, dtype=np.int64)

    def stage_write_elem(self, index: int, value: int) -> None:
        self.np[index] = value

    def stage_write(self, index: int, start: int, values: list[int]) -> None:
        del index, start, values


class Sampler:
    """The worker's, around which the plugin works as around vLLM's."""

    logprobs_mode = "raw_logprobs"

    def __init__(self, requests: RequestState, vocab_size: int) -> None:
        self.req_states, self.vocab_size = requests, vocab_size
        self.measured = set[str]()

    def add_request(self, slot: int, prompt_len: int, params: Any) -> None:
        own_probabilities._add_to_second(lambda *_: None, self, slot, prompt_len, params)

    def __call__(self, logits: torch.Tensor, batch: Any) -> Any:
        output = own_probabilities._sample_in_second(_likeliest, self, logits, batch)
        ranks = output.logprobs_tensors.selected_token_ranks.tolist()
        self.measured |= {name for name, rank in zip(batch.req_ids, ranks, strict=True) if rank >= MARK}
        return output


def _likeliest(sampler: Sampler, logits: torch.Tensor, batch: Any) -> Any:
    del sampler
    log_p, tokens = logits.log_softmax(-1).max(1, keepdim=True)
    logprobs = LogprobsTensors(tokens, log_p, torch.ones(len(logits)).long())
    return SimpleNamespace(sampled_token_ids=tokens, num_sampled=batch.num_sampled, logprobs_tensors=logprobs)


def _apply(worker: Any, logits: torch.Tensor, batch: Any, masked: list[str], bitmask: Any) -> None:
    del worker
    for name, mask in zip(masked, bitmask, strict=True):
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: logits.shape[1]]
        logits[batch.req_ids.index(name), torch.from_numpy(bits == 0)] = -torch.inf


class Worker:
    """Runs the steps of a scheduler with random logits."""

    def __init__(self, vocab_size: int) -> None:
        self.requests: Any = RequestState.__new__(RequestState)
        vars(self.requests).update(
            **{name: _Column() for name in ("prompt_len", "prefill_len", "total_len", "num_computed_tokens")},
            **{name: np.zeros(NUM_SLOTS) for name in ("max_seq_len", "num_computed_prefill_tokens")},
            num_computed_tokens_np=np.zeros(NUM_SLOTS),
            draft_tokens=torch.zeros(NUM_SLOTS, 1),
            max_num_reqs=NUM_SLOTS,
            all_token_ids=_Column(),
            req_id_to_index={},
            index_to_req_id={},
            free_indices=list(range(NUM_SLOTS)),
        )
        self.req_states = self.requests
        self.sampler = Sampler(self.requests, vocab_size)
        self.masked = set[str]()
        self.generator = torch.Generator().manual_seed(3)
        # As vLLM measures how much memory a step takes.
        dummy = SimpleNamespace(idx_mapping_np=np.arange(2), req_ids=["dummy", "dummy2"], num_sampled=None)
        self.dummy = dummy
        self.sampler(torch.zeros((2, vocab_size)), dummy)

    def execute(self, scheduled: Any) -> None:
        """Take in what a step brings, as ``GPUModelRunner.execute_model`` does."""
        for name in sorted(scheduled.finished_req_ids | (scheduled.preempted_req_ids or set())):
            self.requests.remove_request(name)
        seams._add_requests(Worker.add_requests, self, scheduled)

    def add_requests(self, scheduled: Any) -> None:
        for new in scheduled.scheduled_new_reqs:
            self.requests.remove_request(new.req_id)
            self.requests.add_request(
                req_id=new.req_id,
                prompt_len=new.prompt_len,
                all_token_ids=new.prefill_token_ids,
                num_computed_tokens=new.num_computed_tokens,
                max_tokens=new.sampling_params.max_tokens,
            )
            slot = self.requests.req_id_to_index[new.req_id]
            self.requests.num_computed_tokens_np[slot] = new.num_computed_tokens
            self.sampler.add_request(slot, new.prompt_len, new.sampling_params)

    def sample(self, scheduled: Any, grammar: Any) -> ModelRunnerOutput:
        names = sorted(scheduled.num_scheduled_tokens, key=lambda name: (scheduled.num_scheduled_tokens[name], name))
        slots = np.array([self.requests.req_id_to_index[name] for name in names])
        ends = np.zeros(len(names), dtype=np.int64)
        for row, (name, slot) in enumerate(zip(names, slots, strict=True)):
            self.requests.num_computed_tokens_np[slot] += scheduled.num_scheduled_tokens[name]
            ends[row] = self.requests.num_computed_tokens_np[slot]
        is_sampled = ends >= self.requests.prefill_len.np[slots]
        logits = torch.randn((len(names), self.sampler.vocab_size), generator=self.generator)
        batch = SimpleNamespace(
            req_ids=names,
            idx_mapping=torch.from_numpy(slots),
            idx_mapping_np=slots,
            num_sampled=torch.from_numpy(is_sampled.astype(np.int32)),
        )
        if grammar is not None:
            masked = grammar.structured_output_request_ids
            own_probabilities._apply_mask_in_second(_apply, self, logits, batch, masked, grammar.grammar_bitmask)
        output = self.sampler(logits, batch)
        self.masked |= {name for row, name in enumerate(names) if logits[row].isneginf().any()}
        tokens = [
            [int(token)] if sampled else []
            for (token,), sampled in zip(output.sampled_token_ids, is_sampled, strict=True)
        ]
        return ModelRunnerOutput(names, {name: row for row, name in enumerate(names)}, tokens)

    def mask_dummies(self) -> None:
        self.sampler(torch.zeros((2, self.sampler.vocab_size)), self.dummy)


class Engine(Manager):
    """Steps as ``EngineCore.step_with_batch_queue`` makes them: one is under way while the next is scheduled."""

    def __init__(self, model: Path) -> None:
        super().__init__(
            model,
            max_model_len=128,
            max_num_seqs=NUM_SLOTS,
            async_scheduling=True,
            enable_prefix_caching=False,
            max_num_batched_tokens=16,
        )
        words = build_words(word_list(WORDS, "en"), Speller.from_tokenizer(self.tokenizer))
        ArtefactFolder(model).save(words)
        self.digest = words.digest
        group = KVCacheGroupSpec(
            ["layer"], FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
        )
        self.config.cache_config.num_gpu_blocks = 200
        self.scheduler = AsyncScheduler(self.config, KVCacheConfig(200, [], [group]), self._manager, BLOCK_SIZE)
        # vLLM has that runner only where Triton has a driver.
        self.scheduler.use_v2_model_runner = True
        self.worker = Worker(self.config.model_config.get_vocab_size())
        self.queue = deque[tuple[Any, Any]]()
        self.counts = Counter[str]()
        self.started: dict[str, tuple[Request, GrammarReference | None]] = {}
        ask = self._manager.grammar_bitmask

        def counted(*args: Any) -> Any:
            self.counts["masks asked for"] += 1
            return ask(*args)

        self._manager.grammar_bitmask = counted

    def begin(
        self, name: str, reference: GrammarReference | None = None, grammar: str = "", prompt: str = "a", **options: Any
    ) -> Request:
        text = grammar if reference is None else reference.to_ebnf()
        structured = StructuredOutputsParams(grammar=text) if text else None
        if structured is not None:
            structured._backend = "xgrammar"
        params = SamplingParams(**{"max_tokens": 12, "temperature": 0.0, "structured_outputs": structured} | options)
        params.update_from_generation_config({}, STOP)
        request = Request(name, self.tokenizer.encode(prompt), params, None)
        self._manager.grammar_init(request)
        while request.structured_output_request and not request.structured_output_request._check_grammar_completion():
            time.sleep(0.001)
        self.scheduler.add_request(request)
        self.started[name] = request, reference
        return request

    def reference(self, **fields: Any) -> GrammarReference:
        return GrammarReference(
            self.digest, ListOptions(punctuation="basic"), **{"n_words": 5, "max_tokens": 12} | fields
        )

    def step(self) -> None:
        scheduled, is_deferred = None, False
        if self.scheduler.has_requests():
            scheduled = self.scheduler.schedule()
            self.worker.execute(scheduled)
            if scheduled.total_num_scheduled_tokens:
                self.counts["steps"] += 1
                is_deferred = scheduled.pending_structured_output_tokens
                self.counts["deferred"] += is_deferred
                if not is_deferred:
                    self.queue.appendleft(
                        (scheduled, self.worker.sample(scheduled, self.scheduler.get_grammar_bitmask(scheduled)))
                    )
                    if len(self.queue) < 2:
                        return
        if self.queue:
            self.scheduler.update_from_output(*self.queue.pop())
        if is_deferred:
            self.queue.appendleft(
                (scheduled, self.worker.sample(scheduled, self.scheduler.get_grammar_bitmask(scheduled)))
            )

    def run(self, max_steps: int = 200) -> None:
        for _ in range(max_steps):
            if not self.scheduler.has_requests() and not self.queue:
                return
            self.step()
        raise AssertionError("the engine does not come to an end")

    def check(self) -> None:
        """Every text of a list is one, and as long as it may be."""
        for name, (request, reference) in self.started.items():
            tokens = list(request.output_token_ids)
            if reference is not None and request.status != RequestStatus.FINISHED_ABORTED:
                assert self.is_listed(reference, tokens), (name, tokens)

    def is_listed(self, reference: GrammarReference, tokens: list[int]) -> bool:
        backend: Any = self._manager.backend
        matcher = Matcher.of(reference, backend._lists.for_text(reference), [STOP])
        return all(map(matcher.accept_token, tokens)) and (matcher.is_terminated or matcher.can_stop())

    @property
    def slots(self) -> Any:
        return seams._runners[self.worker.requests]


# What the tests call.


class Told(NamedTuple):
    """What a test wants to know."""

    counts: Counter[str]
    facts: dict[str, Any]


def _engine(folder: Path, table_bytes: int = 256 * 1024) -> Engine:
    write_model(folder)
    os.environ[ARTEFACT_DIR_VARIABLE] = str(folder)
    os.environ[seams.TABLE_BYTES_VARIABLE] = str(table_bytes)
    seams._reported.clear()
    seams._runners.clear()
    seams.DEVICE_TYPE = "cpu"
    return Engine(folder)


def follow_many(folder: Path) -> Told:
    """More texts than slots, one of them free, of several N and with all that a slot knows."""
    with installed_plugin():
        engine = _engine(folder)
        for number in range(9):
            fields = {"n_words": 1 + number % 5, "max_tokens": 4 + number, "no_repeat": 2 + number % 3}
            engine.begin(f"r{number}", engine.reference(**fields, min_tokens=number % 3))
        # One without a list, in a slot that texts with one had, while others have theirs.
        while not RequestStatus.is_finished(engine.started["r3"][0].status):
            engine.step()
        engine.begin("free")
        # Its prompt takes several steps.
        engine.begin("long", engine.reference(), prompt="word " * 12)
        engine.run()
        engine.check()
        facts = {"num_dead": engine.slots.num_dead, "not masked": sorted({*engine.started} - engine.worker.masked)}
        return Told(engine.counts, facts)


def follow_beside_others(folder: Path) -> Told:
    """Two texts on the device, beside one with a client's grammar and one with an author's limits."""
    with installed_plugin():
        engine = _engine(folder)
        for number in range(2):
            engine.begin(f"r{number}", engine.reference(), logprobs=0 if number else None)
        engine.begin("client", grammar='root ::= ("a" | "b")+')
        engine.begin("limits", engine.reference(controls=Controls(max_sentences=2)), logprobs=0)
        engine.step()
        on_device = sum(request.structured_output_request is None for request, _ in engine.started.values())
        engine.run()
        engine.check()
        client, _ = engine.started["client"]
        assert set(engine.tokenizer.decode(client.output_token_ids).removesuffix("<stop>")) <= {"a", "b"}
        return Told(engine.counts, {"on the device": on_device, "measured": sorted(engine.worker.sampler.measured)})


def preempt_and_abort(folder: Path) -> Told:
    """All texts are preempted again and again, with a step under way, and one is aborted."""
    with installed_plugin():
        engine = _engine(folder)
        for number in range(6):
            engine.begin(f"r{number}", engine.reference(no_repeat=2, max_tokens=10 + number), max_tokens=10 + number)
        for number in itertools.count(1):
            if not engine.scheduler.has_requests() and not engine.queue:
                break
            engine.step()
            if number % 4 == 0 and number < 40:
                engine.scheduler.reset_prefix_cache(reset_running_requests=True)
            if number == 6:
                engine.scheduler.finish_requests("r1", RequestStatus.FINISHED_ABORTED)
            assert number < 300
        engine.check()
        num_preempted = sum(one.num_preemptions for one, _ in engine.started.values())
        engine.begin("last", engine.reference())
        engine.run()
        return Told(engine.counts, {"preempted": num_preempted, "num_dead": engine.slots.num_dead})


def take_tables(folder: Path) -> Told:
    """The worker loses the tables of texts that the scheduler let go."""
    facts = {}
    with installed_plugin():
        for when in ("before the worker has it", "in its slot"):
            engine = _engine(folder)
            engine.begin("r", engine.reference())
            if when == "in its slot":
                engine.step()
            scheduled = engine.scheduler.schedule()
            try:
                if when == "in its slot":
                    engine.slots._tables.clear()
                else:
                    del scheduled.scheduled_new_reqs[0].sampling_params.device_text
                engine.worker.execute(scheduled)
                engine.worker.sample(scheduled, None)
            except RuntimeError as error:
                facts[when] = type(error).__name__
    return Told(Counter(), facts)


def sample_a_forbidden_token(folder: Path) -> Told:
    """The sampler takes a token that the mask forbids."""
    with installed_plugin():
        engine = _engine(folder)
        engine.begin("r", engine.reference())
        [forbidden] = engine.tokenizer.encode("\n")
        engine.step()
        slot = engine.worker.requests.req_id_to_index["r"]
        engine.slots._columns[slot, len(SLOT)] = -1
        index = torch.tensor([slot])
        engine.slots.advance(index, torch.tensor([[forbidden]]), torch.ones(1).int())
        logits = torch.zeros((1, engine.worker.sampler.vocab_size))
        engine.slots.mask(logits, index)
        after = torch.isfinite(logits[0]).nonzero().flatten().tolist()
        # It is known on the host when the next text comes.
        engine.begin("other", engine.reference())
        engine.run()
        return Told(engine.counts, {"after it": after, "num_dead": engine.slots.num_dead})


def step_between_dummies(folder: Path) -> Told:
    """Between its steps the worker runs dummy ones, which have the numbers of its first slots."""
    with installed_plugin():
        engine = _engine(folder)
        for number in range(4):
            engine.begin(f"r{number}", engine.reference(no_repeat=2))
        while engine.scheduler.has_requests() or engine.queue:
            engine.step()
            engine.worker.mask_dummies()
        engine.check()
        return Told(engine.counts, {})


def fall_back_for_want_of_room(folder: Path) -> Told:
    """There is no room for the list."""
    with installed_plugin():
        engine = _engine(folder, table_bytes=1024)
        engine.begin("r", engine.reference())
        engine.run()
        engine.check()
        return Told(engine.counts, {"reasons": sorted(seams._reported)})


def keep_an_arm(folder: Path) -> Told:
    """The benchmark for GPUs keeps an arm's texts from the device, by the names of their requests."""
    with installed_plugin():
        engine = _engine(folder)
        counters = StepCounters(folder / "steps")
        switch_masks(engine.scheduler, counters)
        for name in ("device-0", "constrained-1", "device-2"):
            engine.begin(name, engine.reference())
        engine.step()
        kept = [name for name, (request, _) in engine.started.items() if request.structured_output_request is not None]
        engine.run()
        engine.check()
        return Told(engine.counts, {"kept": kept, **counters.read()})
