"""The quality benchmark goes on where it ended, its figures are those of the texts, and bits are probabilities."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.quality.free_model import BATCH, FreeModel, bits_key, bits_of, score
from benchmarks.quality.methods import METHODS, find_methods
from benchmarks.quality.prompts import languages, load_prompts
from benchmarks.quality.records import Cell, Record, Records, ask
from benchmarks.quality.rows import bits_per_char, ends_sentence, log_mass_per_word, make_row, seconds_at_8, tables
from benchmarks.quality.signs import faults_per_100_words, function_words, has_loop, is_stray, same_opening
from benchmarks.quality.texts import weights_of
from deployments.protocol.reader import ChatRequestReader
from tests.deployments.front import SERVED, chat_body
from tests.vocab.toys import STOP, toy_tokenizer

GREEDY, FREE = find_methods("greedy,free-greedy")
CELL = Cell("m", "en", 1000, 60, GREEDY)
TOKENIZER = toy_tokenizer([" la", "ca", "sa", " es"])


def test_there_are_forty_different_prompts_in_each_language() -> None:
    assert languages() == ["de", "en", "es", "tr"]
    for lang in languages():
        prompts = load_prompts(lang, 99)
        assert len(set(prompts)) == len(prompts) == 40
        assert load_prompts(lang, 3) == prompts[:3]


def test_methods_have_names_of_their_own_and_ask_for_what_there_is() -> None:
    assert len({method.name for method in METHODS}) == len(METHODS)
    with pytest.raises(KeyError):
        find_methods("greedy,slow")
    for method in METHODS:
        if method.vocab is not None:
            fields = chat_body(**method.fields, vocab={"lang": "en", "n_words": 10, **method.vocab})
            assert ChatRequestReader(SERVED).read(fields).vocabulary is not None


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    Records(path).add(_answer(CELL, "one"))
    with path.open("a") as file:
        file.write('{"kind": "answer", "mod')
    again = Records(path)
    assert again.missing("answer", CELL, [("one", 1), ("one", 2), ("two", 1)]) == [("one", 2), ("two", 1)]
    again.add(_answer(CELL, "two", text="a\u2028line"))
    last = Records(path)
    assert last.missing("answer", CELL, [("one", 1), ("two", 1)]) == []
    assert [record["text"] for record in last.of("answer", CELL)] == ["A dog. The end.", "a\u2028line"]


def test_an_answer_counts_for_what_was_asked_only(tmp_path: Path) -> None:
    records = Records(tmp_path / "run.jsonl")
    records.add(_answer(CELL, "one"))
    hot = GREEDY._replace(fields={"temperature": 0.1})
    for other in ({"n_words": 500}, {"num_tokens": 30}, {"lang": "es"}, {"adapter": "simple@12"}, {"method": hot}):
        assert records.missing("answer", CELL._replace(**other), [("one", 1)]) == [("one", 1)]
    assert records.missing("alone", CELL, [("one", 1)]) == [("one", 1)]


class Completions:
    """Stands for the package's client: one answer, as whole or as a stream."""

    def __init__(self, **block: Any) -> None:
        self.asked: dict[str, Any] = {}
        self._block = block
        self.chat = SimpleNamespace(completions=self)

    def create(self, **asked: Any) -> Any:
        self.asked = asked
        usage, end = {"completion_tokens": 4}, {"finish_reason": "stop"}
        detail = {"prob": 0.5}
        parts: list[dict[str, Any]] = [{"choices": [{"message": {"content": "A dog."}} | end], "usage": usage}]
        if asked["stream"]:
            first = {"delta": {"content": "A "}, "finish_reason": None, "token_details": [detail]}
            last = {"delta": {"content": "dog."}, "token_details": [detail]} | end
            parts = [{"choices": [first]}, {"choices": [last]}, {"choices": [], "usage": usage}]
        parts[-1]["vocab"] = self._block
        made = [SimpleNamespace(model_dump=lambda part=part: part) for part in parts]
        return made if asked["stream"] else made[0]


@pytest.mark.parametrize("with_steps", [False, True])
def test_an_answer_is_read_whole_and_from_a_stream(with_steps: bool) -> None:
    client: Any = Completions(rescue={"num_tokens": 3})
    record = ask(client, "served", CELL, ("Why?", 7), with_steps=with_steps)
    assert (record["text"], record["is_ended"], record["prompt"], record["seed"]) == ("A dog.", True, "Why?", 7)
    assert (record["num_answer_tokens"], record["num_generated_tokens"]) == (4, 7)
    assert len(record["steps"]) == 2 * with_steps
    assert client.asked["extra_body"]["vocab"] == {"lang": "en", "n_words": 1000, "score": True}
    assert (client.asked["model"], client.asked["seed"], client.asked["max_tokens"]) == ("served", 7, 60)
    searched: Any = Completions(generated_tokens=16)
    beams = CELL._replace(method=find_methods("beams-4")[0])
    assert ask(searched, "served", beams, ("Why?", 7), with_steps=True)["num_generated_tokens"] == 16
    assert not searched.asked["stream"]


def test_bits_are_shared_out_over_all_characters() -> None:
    answers = [_answer(CELL, "one", text="12345"), _answer(CELL, "two", text="1234567890", is_ended=False)]
    bits = {bits_key(answers[0]): 10.0, bits_key(answers[1]): 5.0}
    assert bits_per_char(answers, bits) == 1.0
    assert bits_per_char([{**answers[0], "is_ended": False}], bits) is None


def test_a_finished_text_ends_with_a_sentence() -> None:
    assert all(map(ends_sentence, ("The end.", 'He said "go!" ', "What?\n")))
    assert not any(map(ends_sentence, ("And then", "First:", "")))


def test_seconds_of_eight_are_those_of_full_runs() -> None:
    full = [_answer(CELL, str(i), run="full", started=float(i), ended=i + 9.0) for i in range(8)]
    rest = [_answer(CELL, "8", run="rest", started=0.0, ended=900.0)]
    assert seconds_at_8(full + rest) == 16 / 8
    assert seconds_at_8(rest) is None


def test_a_row_has_what_its_texts_are_worth() -> None:
    looping = _answer(CELL, "one", text="the dog is here the dog is here", num_generated_tokens=40)
    unlisted = _answer(CELL, "two", text="A zyzzyva.", block={"log_mass_per_word": 0.5, "num_words": 2})
    bits = {bits_key(looping): 31.0, bits_key(unlisted): 10.0}
    alone = [{**looping, "kind": "alone", "started": 1.0, "ended": 3.0}]
    row = make_row(CELL._replace(adapter="a"), [looping, unlisted], alone, bits, {})
    faults = row.pop("faults")
    assert faults == "–" or float(faults) >= 0
    assert list(row.values()) == [
        *("greedy, adapter", "2", "1.00", "–", "–", "5.0", "0%", "0.79", "0.100", "0%", "0%", "50%", "1", "2.5"),
        *("2.0", "–"),
    ]


def test_the_mass_of_long_texts_counts_more() -> None:
    answers = [
        _answer(CELL, "one", block={"log_mass_per_word": 0.5, "num_words": 9}),
        _answer(CELL, "two", block={"log_mass_per_word": 5.5, "num_words": 1}),
    ]
    assert log_mass_per_word(answers) == 1.0
    assert log_mass_per_word([*answers, _answer(CELL, "three", block={"log_mass_per_word": None})]) is None


def test_free_texts_stand_beside_those_of_each_list(tmp_path: Path) -> None:
    records = Records(tmp_path / "run.jsonl")
    for cell in (CELL, CELL._replace(n_words=500), CELL._replace(n_words=None, method=FREE)):
        records.add(_answer(cell, "one"))
    records.add({"kind": "bits", "scorer": "m", "key": ["one", "A dog. The end.", True], "bits": 7.5})
    lines = list(tables(records, 60, "judge"))
    assert [line.strip() for line in lines if "words," in line] == [
        f"{n_words} words, 'en', m, at most 60 tokens" for n_words in ("500", "1,000")
    ]
    assert [line.split(" | ")[:3] for line in lines if "greedy" in line] == [
        ["| free-greedy", "1", "0.50"],
        ["| greedy", "1", "0.50"],
    ] * 2
    assert list(tables(records, 30, "judge")) == []


def test_a_stray_mark_or_letter_is_seen() -> None:
    stray = (("It was a small, l look.", "en"), ("It was , a dog.", "en"), ('He said "yes.', "en"))
    assert all(is_stray(*one) for one in (*stray, ("Agua b pan.", "es"), ("Ein Hund a.", "de")))
    assert not any(is_stray(*one) for one in (("I saw a dog.", "en"), ("Agua y pan.", "es")))


def test_faults_of_grammar_are_counted_by_words() -> None:
    pytest.importorskip("harper")
    assert faults_per_100_words(["He has an dog.", "The dog runs fast."], "en") == 100 / 8
    assert faults_per_100_words(["Er hat ein Hund."], "de") is None


def test_a_loop_is_one_content_word_five_times_and_about_a_hundred_words_are_no_content() -> None:
    for text in ("heart heart heart heart heart", "A Heart, the heart's heart. Heart and heart!"):
        assert has_loop(text, "en")
    few, far = "heart heart heart heart", "heart " + "of the " * 30
    for text in (few, "the the the the the the, and the", far + few):
        assert not has_loop(text, "en")
    assert all(95 <= len(function_words(lang)) <= 120 for lang in languages())
    assert {"time", "people", "i", "the"} & function_words("en") == {"i", "the"}


def test_texts_that_begin_alike_are_counted() -> None:
    texts = ["One day, in a town.", "One day in a house.", "One day in a", "He is not here.", "he is not here", "No."]
    assert same_opening(texts) == 5 / 6
    assert same_opening(["A dog.", "A cat."]) == same_opening([]) == 0


def test_an_adapter_is_known_by_its_name_and_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = weights_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert first.startswith(f"{tmp_path.name}@")
    assert weights_of(tmp_path) != first


class ByteTokenizer:
    """What the judge asks of a tokenizer; each byte is a token, and a prompt is two."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [TOKENIZER.token_bytes.index(bytes([byte])) for byte in text.encode()]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [7, len(messages[0]["content"])]}


@pytest.fixture(scope="module")
def judge() -> FreeModel:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": None, "eos_token_id": STOP, "pad_token_id": STOP}
    config = LlamaConfig(vocab_size=len(TOKENIZER.token_bytes), initializer_range=0.5, **sizes, **ends)
    made = FreeModel("nowhere")
    made.model, made.tokenizer = LlamaForCausalLM(config).eval(), ByteTokenizer()
    return made


def test_the_judges_bits_are_those_of_the_next_tokens(judge: FreeModel) -> None:
    beginning, ended, longer = judge.bits("Tell me", [("de", False), ("de", True), ("dex", False)])
    logits = judge.model(torch.tensor([[*judge.prompt_tokens("Tell me"), *judge.tokenizer("de")["input_ids"]]])).logits
    p = logits[0, -1].softmax(-1)
    assert 2 ** -(ended - beginning) == pytest.approx(float(p[STOP].detach()), rel=1e-3)
    # "x" is one token here, so its share of the beginning is that token's probability.
    [token] = judge.tokenizer("x")["input_ids"]
    assert 2 ** -(longer - beginning) == pytest.approx(float(p[token].detach()), rel=1e-3)


def test_texts_of_one_prompt_have_the_same_bits_together_as_alone(judge: FreeModel) -> None:
    texts = [("de " * (place % 5) + "la"[: place % 3], place % 2 == 0) for place in range(BATCH + 3)]
    alone = [judge.bits("Tell me", [one])[0] for one in texts]
    assert judge.bits("Tell me", texts) == pytest.approx(alone, rel=1e-4)
    assert judge.bits("Tell me", []) == []


def test_an_answer_is_scored_once_by_each_model(judge: FreeModel, tmp_path: Path) -> None:
    records = Records(tmp_path / "run.jsonl")
    answers = [_answer(CELL, "Tell me", text="la casa", is_ended=is_ended) for is_ended in (True, False, True)]
    assert [score(judge, name, answers, records) for name in ("j", "j", "k")] == [2, 0, 2]
    found = bits_of(Records(tmp_path / "run.jsonl"), "j")
    assert found[bits_key(answers[0])] == pytest.approx(judge.bits("Tell me", [("la casa", True)])[0], rel=1e-4)


def _answer(cell: Cell, prompt: str, **changes: Any) -> Record:
    return {
        "kind": "answer", "run": "r", **cell.key, "prompt": prompt, "seed": 1, "text": "A dog. The end.",
        "is_ended": True, "num_answer_tokens": 10, "num_generated_tokens": 10, "block": {}, "started": 0.0,
        "ended": 1.0, **changes,
    }  # fmt: skip
