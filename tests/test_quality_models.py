"""The quality benchmark's models: the judge's figures are probabilities, and transformers keeps to the list."""

import math
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.prose.free_model import BATCH, FreeModel, score_answers
from benchmarks.prose.generated import AllowedTokens, generate
from benchmarks.prose.methods import Method
from benchmarks.prose.records import Cell, Records
from benchmarks.prose.steps import count_low_steps
from tests.vocab.toys import FULL, STOP, toy_states, toy_tokenizer, word_list
from vocab.matching.states import ListStates
from vocab.text.reader import TextReader

WORDS, PIECES = ["de", "la", "casa", "perro", "es"], [" la", "ca", "sa", " es"]
TOKENIZER = toy_tokenizer(PIECES)
NUM_TOKENS = len(TOKENIZER.token_bytes)
BEAMS = Method("beams", "transformers", {"num_beams": 3, "do_sample": True})


class ByteTokenizer:
    """What the judge asks of a tokenizer; each byte is a token, and a prompt is two."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [TOKENIZER.token_bytes.index(bytes([byte])) for byte in text.encode()]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [7, len(messages[0]["content"])]}

    def decode(self, tokens: list[int], **_: Any) -> str:
        return b"".join(TOKENIZER.token_bytes[token] for token in tokens).decode()


@pytest.fixture(scope="module")
def judge() -> FreeModel:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": None, "eos_token_id": STOP, "pad_token_id": STOP}
    config = LlamaConfig(vocab_size=NUM_TOKENS, initializer_range=0.5, **sizes, **ends)
    made = FreeModel("nowhere")
    made.model, made.tokenizer = LlamaForCausalLM(config).eval(), ByteTokenizer()
    return made


def test_the_probabilities_of_all_that_may_follow_are_one(judge: FreeModel) -> None:
    beginning = judge.bits("Tell me", "de", is_ended=False)
    ended = judge.bits("Tell me", "de", is_ended=True)
    logits = judge.model(torch.tensor([[*judge.prompt_tokens("Tell me"), *judge.tokenizer("de")["input_ids"]]])).logits
    p = logits[0, -1].softmax(-1)
    assert 2 ** -(ended - beginning) == pytest.approx(float(p[STOP].detach()), rel=1e-3)
    # "x" is one token here, so its share of the beginning is that token's probability.
    token = judge.tokenizer("x")["input_ids"][0]
    longer = judge.bits("Tell me", "dex", is_ended=False)
    assert 2 ** -(longer - beginning) == pytest.approx(float(p[token].detach()), rel=1e-3)


def test_texts_of_one_prompt_have_the_same_bits_together_as_alone(judge: FreeModel) -> None:
    texts = [("de " * (place % 5) + "la"[: place % 3], place % 2 == 0) for place in range(BATCH + 3)]
    alone = [judge.bits("Tell me", text, is_ended=is_ended) for text, is_ended in texts]
    assert judge.bits_of_many("Tell me", texts) == pytest.approx(alone, rel=1e-4)
    assert judge.bits_of_many("Tell me", []) == []


def test_log_odds_are_those_of_the_next_token(judge: FreeModel) -> None:
    one, other = (judge.bits("Tell me", f"de{letter}", is_ended=False) for letter in "xy")
    assert judge.log_odds("Tell me", "de", ("x", "y")) == pytest.approx((other - one) * math.log(2), abs=1e-3)
    with pytest.raises(ValueError, match="no single token"):
        judge.log_odds("Tell me", "de", ("xy", "y"))


def test_nothing_is_lost_where_everything_may_come(judge: FreeModel) -> None:
    tokens = judge.tokenizer("la casa")["input_ids"]
    assert judge.log_masses([7, 3], tokens, lambda _: list(range(NUM_TOKENS))) == pytest.approx([0] * 7, abs=1e-5)
    even = judge.log_masses([7, 3], tokens, lambda _: list(range(0, NUM_TOKENS, 2)))
    odd = judge.log_masses([7, 3], tokens, lambda _: list(range(1, NUM_TOKENS, 2)))
    assert [math.exp(a) + math.exp(b) for a, b in zip(even, odd, strict=True)] == pytest.approx([1] * 7, abs=1e-5)


def test_an_answer_is_scored_once(judge: FreeModel, tmp_path: Any) -> None:
    records = Records(tmp_path / "run.jsonl")
    answer = {"kind": "answer", "model": "m", "prompt": "Tell me", "text": "la casa", "is_ended": True}
    for record in (answer, {**answer, "is_ended": False}, answer, {**answer, "model": "another"}):
        records.add(record)
    assert score_answers(judge, "m", records) == 2
    assert score_answers(judge, "m", records) == 0
    assert records.of("bits")[0]["bits"] == judge.bits("Tell me", "la casa", is_ended=True)


def test_tokens_at_which_the_mask_left_little_are_counted_once(judge: FreeModel, tmp_path: Any) -> None:
    records, states = Records(tmp_path / "run.jsonl"), _states(5)
    free = {"kind": "answer", "model": "m", "lang": "es", "n_words": None, "prompt": "Tell me", "text": "de perro"}
    for n_words in (None, 5, 5):
        records.add({**free, "n_words": n_words})
    listed = (states.words, states.frame)
    assert count_low_steps(judge, "m", "es", listed, records) == 1
    assert count_low_steps(judge, "m", "es", listed, records) == 0
    [found] = records.of("steps")
    allowed = AllowedTokens(states, [STOP], 0, 100, NUM_TOKENS)
    tokens = judge.tokenizer("de perro")["input_ids"]
    masses = judge.log_masses(judge.prompt_tokens("Tell me"), tokens, allowed.after)
    low = [mass for mass in masses if mass < math.log(0.1)]
    assert (found["num_low"], found["num_steps"]) == (len(low), len(tokens))
    assert low


@pytest.mark.parametrize("num_tokens", [6, 12])
@pytest.mark.parametrize("n_words", [3, 5])
def test_transformers_keeps_to_the_list_and_ends_with_a_whole_word(
    judge: FreeModel, num_tokens: int, n_words: int
) -> None:
    cell = Cell("m", "es", n_words, num_tokens, BEAMS)
    reader = TextReader(word_list(WORDS), FULL, n_words)
    for seed in range(4):
        made = generate(judge, _states(n_words), "Tell me", cell, seed)
        assert reader.is_text(made["text"])
        assert made["num_answer_tokens"] <= num_tokens
        assert made["num_generated_tokens"] >= BEAMS.fields["num_beams"] * made["num_answer_tokens"]
        assert made["vocab"]["log_mass_per_word"] > 0


def test_after_its_end_a_text_has_only_the_end() -> None:
    allowed = AllowedTokens(_states(5), [STOP], 2, 20, NUM_TOKENS)
    tokens = ByteTokenizer()("la")["input_ids"]
    assert STOP in allowed.after(tuple(tokens))
    assert STOP not in allowed.after(tuple(tokens[:1]))
    assert allowed.after((*tokens, STOP)) == [STOP]
    assert allowed(0, torch.tensor([1, 1, *tokens])) == allowed.after(tuple(tokens))
    assert allowed.num_calls == 1


def _states(n_words: int) -> ListStates:
    return toy_states(WORDS, PIECES, n_words=n_words)[0]
