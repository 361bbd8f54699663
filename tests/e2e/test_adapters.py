"""Adapters, lists and the base model in two engines behind two ingresses: each text is what transformers writes with
peft, and adapters that are loaded at run time are everywhere or nowhere, whatever they make the model want to write."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.checker import assert_only_listed_words
from tests.e2e.own_engine import short_lists
from tests.e2e.processes import our_processes_named
from tests.e2e.service import KEY, Service, running
from tests.harness import Demo
from tests.tiny_adapters import DAMAGES, damaged, write_adapter, write_model
from wordbound.lm import WordList

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MODEL, EN, ES = "tiny", "simple-en", "simple-es"
NAMES = (MODEL, EN, ES)
TIMES = 8
"""So often is something asked that has to be so in every process; each request comes to either."""

NUM_AT_ONCE = 64
"""Requests that make a batch of 32 in each of the two engines."""

QUESTIONS = ("Tell me a story about a dog.", "What is a house?")
NUM_TOKENS = 16


@dataclass(frozen=True)
class World:
    service: Service
    folder: Path

    def post(self, path: str, **body: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx2.post(self.service.url + path, json=body, headers=headers, timeout=120)

    def chat(self, model: str, question: str, **fields: Any) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": question}], "max_tokens": NUM_TOKENS, "temperature": 0}
        answer = self.post("/v1/chat/completions", **{"model": model, **body, **fields})
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        assert made["model"] == model
        return made

    def load(self, name: str, folder: Path, **fields: Any) -> httpx2.Response:
        return self.post("/v1/load_lora_adapter", lora_name=name, lora_path=str(folder), **fields)

    def unload(self, name: str) -> httpx2.Response:
        return self.post("/v1/unload_lora_adapter", lora_name=name)

    def names(self) -> list[str]:
        with openai.OpenAI(base_url=f"{self.service.url}/v1", api_key=KEY) as client:
            return [card.id for card in client.models.list().data]

    def text(self, model: str, vocab: dict[str, Any], **fields: Any) -> tuple[str, str | None]:
        """Ask for a constrained text; return it with the adapter that its block names."""
        made = self.chat(model, QUESTIONS[0], vocab=vocab, **fields)
        return made["choices"][0]["message"]["content"], made["vocab"]["adapter"]


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("adapters")
    model = write_model(smollm2_path, folder / MODEL)
    write_adapter(model, folder / EN, {"languages": ["en"], "max_words": 2000})
    write_adapter(model, folder / ES, {"languages": ["es"], "min_words": 300}, r=12)
    args = {
        "lora": {name: str(folder / name) for name in (EN, ES)},
        "lora_dir": str(folder / "lora"),
        "keys": {"default": {"operator": True}},
        "ingress_replicas": 2,
        "autoscaling": {"min_replicas": 2, "max_replicas": 2},
        "placement_bundles": [{"CPU": 0.5}],
        "prebuild_langs": [],
        "wordlist_dir": str(short_lists(folder / "lists", "en", "es")),
        "torch_dtype": "float32",
        "engine_kwargs": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 32},
        "limits": {"max_input_tokens": 512, "max_new_tokens": 256},
    }
    with running(Demo(str(model), folder, args)) as service:
        yield World(service, folder)


class Reference:
    """The same models in transformers and peft."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder / MODEL)
        self._model: Any = PeftModel.from_pretrained(
            AutoModelForCausalLM.from_pretrained(folder / MODEL), folder / EN, adapter_name=EN
        )
        self.add(ES, folder / ES)

    def add(self, name: str, folder: Path) -> None:
        self._model.load_adapter(folder, adapter_name=name)
        self._model.eval()

    def logits(self, name: str, tokens: list[int]) -> torch.Tensor:
        with torch.no_grad():
            if name == MODEL:
                with self._model.disable_adapter():
                    return self._model(torch.tensor([tokens])).logits[0]
            self._model.set_adapter(name)
            return self._model(torch.tensor([tokens])).logits[0]

    def prompt(self, question: str) -> list[int]:
        messages = [{"role": "user", "content": question}]
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def greedy(self, name: str, prompt: list[int], words: WordList | None = None) -> list[int]:
        """Return the likeliest tokens, within a list or without one."""
        tokens, state = prompt, words.start if words else ()
        while (left := len(prompt) + NUM_TOKENS - len(tokens)) and tokens[-1] != self.tokenizer.eos_token_id:
            row = self.logits(name, tokens)[-1]
            if words:
                row = row.masked_fill(~words.mask(state, left), -torch.inf)
            tokens = [*tokens, int(row.argmax())]
            state = words.next(state, tokens[-1]) if words else ()
        return tokens[len(prompt) :]


@pytest.fixture(scope="module")
def reference(world: World) -> Reference:
    return Reference(world.folder)


def test_the_service_lists_its_adapters(world: World) -> None:
    with openai.OpenAI(base_url=f"{world.service.url}/v1", api_key=KEY) as client:
        cards = [card.model_dump() for card in client.models.list().data]
    assert [(card["id"], card.get("parent")) for card in cards] == [(MODEL, None), (EN, MODEL), (ES, MODEL)]


def test_each_request_of_a_batch_is_what_transformers_writes(world: World, reference: Reference) -> None:
    lists = {
        name: WordList(lang, n_words, reference.tokenizer, wordlist_dir=world.folder / "lists")
        for name, lang, n_words in ((EN, "en", 1000), (ES, "es", 500))
    }
    names = [NAMES[number % len(NAMES)] for number in range(NUM_AT_ONCE)]

    def ask(number: int) -> tuple[list[int], list[int]]:
        words = lists.get(names[number])
        # The reference takes no word back, and chooses no end ahead.
        own = {"rescue": False, "end": "word"}
        listed = {"lang": words.lang, "n_words": words.n_words, **own} if words else None
        vocab = {"vocab": listed, "no_repeat_ngram_size": 0} if words else {}
        made = world.chat(names[number], f"{QUESTIONS[number % 2]} {number}", return_token_ids=True, **vocab)
        assert not words or made["vocab"]["adapter"] == names[number]
        return made["prompt_token_ids"], made["choices"][0]["token_ids"]

    with ThreadPoolExecutor(NUM_AT_ONCE) as pool:
        written = list(pool.map(ask, range(NUM_AT_ONCE)))
    expected = [
        reference.greedy(name, prompt, lists.get(name)) for name, (prompt, _) in zip(names, written, strict=True)
    ]
    assert [tokens for _, tokens in written] == expected
    assert len(set(map(tuple, expected[:3]))) == 3, "the adapters must differ"


@pytest.mark.parametrize(
    ("vocab", "adapter"),
    [
        ({"lang": "en", "n_words": 1000}, EN),
        ({"lang": "es", "n_words": 1000}, ES),
        ({"lang": "es", "n_words": 299}, None),
        ({"lang": "en", "n_words": 1000, "adapter": None}, None),
        ({"lang": "en", "n_words": 1000, "adapter": ES}, ES),
    ],
)
def test_a_list_has_the_adapter_that_was_trained_for_it(
    world: World, vocab: dict[str, Any], adapter: str | None
) -> None:
    text, named = world.text(MODEL, vocab)
    assert named == adapter
    assert_only_listed_words(text, vocab["lang"], vocab["n_words"], end="sentence")
    without = {name: value for name, value in vocab.items() if name != "adapter"}
    plain = without | {"adapter": None}
    assert text == (world.text(MODEL, plain) if adapter is None else world.text(adapter, without))[0]
    for other in {MODEL, EN, ES} - {adapter or MODEL}:
        assert text != (world.text(MODEL, plain) if other == MODEL else world.text(other, without))[0]


@pytest.mark.parametrize("search", [{"num_beams": 3}, {"best_of": 3, "temperature": 0.5}, {"rescue": True}])
def test_searches_have_the_adapter_and_share_nothing_with_others(world: World, search: dict[str, Any]) -> None:
    members = {"rescue": True} if "rescue" in search else {}
    fields = {name: value for name, value in search.items() if name != "rescue"} | {"seed": 3}

    def ask(adapter: str | None) -> str:
        vocab = {"lang": "en", "n_words": 800, "adapter": adapter, **members}
        made = world.chat(MODEL, QUESTIONS[0], vocab=vocab, **fields)
        assert made["vocab"]["adapter"] == adapter
        return str(made["choices"][0]["message"]["content"])

    adapters = [None, EN, ES]
    alone = [ask(adapter) for adapter in adapters]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(ask, adapters * 2))
    assert len(set(alone)) == 3
    assert together == alone * 2


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_the_adapter(world: World, reference: Reference, name: str) -> None:
    prompt, scored = reference.prompt(QUESTIONS[1]), [504, 2644, 28]
    made = world.post("/v1/token_logprobs", model=name, prompt=prompt, token_ids=scored).json()
    expected = reference.logits(name, [*prompt, *scored]).log_softmax(-1)[len(prompt) - 1 : -1]
    assert made["model"] == name
    assert made["logprobs"] == pytest.approx(
        [float(row[token]) for row, token in zip(expected, scored, strict=True)], abs=0.01
    )
    top = world.post("/v1/logprobs", model=name, prompt=[prompt, [*prompt, 504]], top_logprobs=1).json()
    assert top["model"] == name
    likeliest = [int(reference.logits(name, tokens)[-1].argmax()) for tokens in (prompt, [*prompt, 504])]
    assert str(likeliest[0]) in str(top["data"][0]) and str(likeliest[1]) in str(top["data"][1])


def test_completions_streams_and_word_tools_take_adapters(world: World) -> None:
    vocab = {"lang": "en", "n_words": 1000}
    made = world.post("/v1/completions", model=ES, prompt="A dog", max_tokens=12, temperature=0, vocab=vocab).json()
    assert (made["model"], made["vocab"]["adapter"]) == (ES, ES)
    with openai.OpenAI(base_url=f"{world.service.url}/v1", api_key=KEY) as client:
        chunks = list(
            client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": QUESTIONS[0]}],
                stream=True,
                max_tokens=12,
                extra_body={"vocab": vocab},
            )
        )
    assert {chunk.model for chunk in chunks} == {MODEL}
    assert (chunks[-1].model_extra or {})["vocab"]["adapter"] == EN
    found = {
        name: world.post("/v1/vocabularies/next", model=name, text="A dog", vocab=vocab | extra).json()
        for name, extra in ((MODEL, {"adapter": None}), (EN, {}), (ES, {}))
    }
    assert [one["vocab"]["adapter"] for one in found.values()] == [None, EN, ES]
    assert len({str(one["data"]) for one in found.values()}) == 3
    rewritten = world.post("/v1/vocabularies/rewrite", model=ES, text="The catastrophe was big.", vocab=vocab).json()
    assert (rewritten["model"], rewritten["vocab"]["adapter"]) == (ES, ES)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"vocab": {"lang": "en", "n_words": 500, "adapter": "other"}}, 404, "vocab.adapter"),
        ({"model": EN, "vocab": {"lang": "en", "n_words": 500, "adapter": ES}}, 400, "vocab.adapter"),
        ({"model": EN, "vocab": {"lang": "en", "n_words": 500, "adapter": None}}, 400, "vocab.adapter"),
    ],
)
def test_names_that_do_not_hold_are_refused(world: World, fields: dict[str, Any], status: int, param: str) -> None:
    answer = world.post("/v1/chat/completions", messages=[{"role": "user", "content": "Hello"}], **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


def test_what_is_loaded_while_others_write_is_everywhere_and_what_replaces_it_too(
    world: World, reference: Reference, tmp_path: Path
) -> None:
    few = {"lang": "es", "n_words": 250}
    prompt = reference.prompt(QUESTIONS[1])
    with ThreadPoolExecutor(4 + TIMES) as pool:
        others = [pool.submit(world.text, EN, {"lang": "en", "n_words": 900}, max_tokens=128) for _ in range(4)]
        for name, fields in (("first", {}), ("second", {"load_inplace": True})):
            folder = write_adapter(world.folder / MODEL, tmp_path / name, {"languages": ["es"], "max_words": 299}, r=8)
            loaded = world.load("poet", folder, **fields)
            assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'poet' added successfully.")
            reference.add(name, folder)
            expected = reference.greedy(name, prompt)
            made = list(pool.map(lambda _: world.chat("poet", QUESTIONS[1], return_token_ids=True), range(TIMES)))
            assert [one["choices"][0]["token_ids"] for one in made] == [expected] * TIMES
            assert list(pool.map(lambda _: world.names(), range(TIMES))) == [[*NAMES, "poet"]] * TIMES
            assert {adapter for _, adapter in pool.map(lambda _: world.text(MODEL, few), range(TIMES))} == {"poet"}
        assert world.load("poet", folder).status_code == 400
        assert world.unload("poet").status_code == 200
        gone = list(pool.map(lambda _: world.post("/v1/completions", model="poet", prompt="A"), range(TIMES)))
        assert [answer.status_code for answer in gone] == [404] * TIMES
        assert {adapter for _, adapter in pool.map(lambda _: world.text(MODEL, few), range(TIMES))} == {None}
        assert {other.result()[1] for other in others} == {EN}


@pytest.mark.fault(65)
@pytest.mark.parametrize("name", DAMAGES)
def test_one_that_does_not_fit_is_refused_in_a_sentence_and_is_nowhere(world: World, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    answer = world.load("poet", damaged(world.folder / EN, tmp_path / "damaged", damage))
    assert answer.status_code == 400, answer.text
    assert re.search(message, answer.json()["error"]["message"])
    assert world.names() == list(NAMES)


ATTACKS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 2, "top_p": 1.0},
    {"temperature": 1, "n": 3},
    {"num_beams": 3},
    {"best_of": 3, "temperature": 1},
    {"temperature": 1, "logit_bias": {str(token): 100 for token in range(500, 540)}},
    {"temperature": 1, "max_tokens": 3},
    {"temperature": 1, "stream": True},
]


ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTIONS[0]}]},
    "/v1/completions": {"prompt": QUESTIONS[0]},
}
"""What is asked on each route that writes."""


def texts_of(answer: httpx2.Response) -> list[str]:
    """Return the texts of an answer, or of its stream."""

    def text_of(choice: dict[str, Any], member: str) -> str:
        return str(choice["text"] if "text" in choice else choice[member].get("content") or "")

    if "text/event-stream" not in answer.headers["content-type"]:
        return [text_of(choice, "message") for choice in answer.json()["choices"]]
    parts = [part.removeprefix("data: ") for part in answer.text.split("\n\n") if part]
    events = [json.loads(part) for part in parts if part != "[DONE]"]
    return ["".join(text_of(choice, "delta") for event in events for choice in event["choices"])]


def hostile_adapter(world: World, folder: Path, std: float) -> Path:
    everywhere = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    card = {"languages": ["es"], "max_words": 299}
    return write_adapter(world.folder / MODEL, folder / "hostile", card, std=std, target_modules=everywhere)


@pytest.mark.fault(65)
def test_one_whose_weights_overflow_is_refused_and_is_nowhere(world: World, tmp_path: Path) -> None:
    answer = world.load("hostile", hostile_adapter(world, tmp_path, std=1e18))
    assert (answer.status_code, world.names()) == (400, list(NAMES)), answer.text
    assert "Adapter hostile: its weights overflow" in answer.json()["error"]["message"]
    # What it left in the engine's cache is nobody else's.
    assert world.text(MODEL, {"lang": "es", "n_words": 250})[1] is None


def test_no_adapter_brings_a_word_that_is_not_listed(world: World, tmp_path: Path) -> None:
    assert world.load("hostile", hostile_adapter(world, tmp_path, std=30.0)).status_code == 200

    def ask(case: tuple[str, str, int, dict[str, Any], bool]) -> None:
        path, model, n_words, fields, has_rescue = case
        vocab = {"lang": "es", "n_words": n_words} | ({"rescue": True} if has_rescue else {})
        body = {"max_tokens": NUM_TOKENS, "seed": 1, **fields}
        answer = world.post(path, model=model, vocab=vocab, **ASKED[path], **body)
        assert '"adapter":"hostile"' in answer.text, answer.text
        for text in texts_of(answer):
            assert_only_listed_words(text, "es", n_words)

    try:
        models = (MODEL, "hostile")
        cases = [(*one, False) for one in product(ASKED, models, (20, 250), ATTACKS)]
        cases += [(path, model, 250, {"temperature": 1}, True) for path, model in product(ASKED, models)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, cases))
        # Others write as before.
        assert world.text(EN, {"lang": "en", "n_words": 900})[1] == EN
    finally:
        assert world.unload("hostile").status_code == 200


@pytest.mark.fault(41)
def test_replicas_that_start_later_have_what_was_loaded(world: World, reference: Reference, tmp_path: Path) -> None:
    folder = write_adapter(world.folder / MODEL, tmp_path / "late", {"languages": ["es"], "max_words": 299}, r=8)
    assert world.load("late", folder).status_code == 200
    reference.add("late", folder)
    expected = reference.greedy("late", reference.prompt(QUESTIONS[1]))
    killed = our_processes_named("ray::ServeReplica:wordbound:Replica")
    assert len(killed) == 2
    for process in killed:
        os.kill(process, signal.SIGKILL)
    body = {"model": "late", "messages": [{"role": "user", "content": QUESTIONS[1]}], "max_tokens": NUM_TOKENS}
    deadline = time.monotonic() + 180
    while (answer := world.post("/v1/chat/completions", **body, temperature=0)).status_code != 200:
        assert answer.status_code in (500, 502, 503) and time.monotonic() < deadline, answer.text
        time.sleep(1)
    made = [world.chat("late", QUESTIONS[1], return_token_ids=True) for _ in range(TIMES)]
    assert [one["choices"][0]["token_ids"] for one in made] == [expected] * TIMES
    assert world.unload("late").status_code == 200
