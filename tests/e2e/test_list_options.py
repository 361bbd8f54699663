"""Every option of a list on the real stack, judged by the independent checker."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.checked_lists import Rules
from tests.checker import assert_only_listed_words, unlisted_words
from tests.e2e.list_cases import MISTAKES, ODD_WORDS, OPTIONS, SCHOOL
from tests.e2e.service import KEY, LISTS, MODEL, Answer, Service, read_stream
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import load_word_list

pytestmark = pytest.mark.e2e

NUM_ANSWERS = 12

QUESTIONS = (
    "Tell me about the dog of a king.",
    "Count from 1 to 20 and say what year it is.",
    "Write a short poem, one line for each day.",
    "Who lives in New York?",
)


def several_answers(
    service: Service, vocab: dict[str, Any], question: str | None = None, num_answers: int = NUM_ANSWERS
) -> list[Answer]:
    """Half of them streamed, eight at a time, with 8 tokens or more."""

    def ask(number: int) -> Answer:
        return service.ask(
            question or QUESTIONS[number % len(QUESTIONS)],
            vocab,
            stream=number % 2 == 0,
            temperature=(0.0, 1.0)[number // 2 % 2],
            max_tokens=8 + number // 2,
            seed=number,
        )

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, range(num_answers)))


@pytest.mark.parametrize("name", list(OPTIONS))
def test_answers_keep_to_the_list_with_each_option(service: Service, name: str) -> None:
    options, own_rules = OPTIONS[name]
    rules: Rules = {"layout": "prose", "punctuation": "standard", "end": "sentence", **own_rules}
    # More of those of which not each has what the option allows.
    num_answers = 20 if name == "numbers" else NUM_ANSWERS
    answers = several_answers(service, {"lang": "en-school", "n_words": 1200, **options}, num_answers=num_answers)
    for answer in answers:
        assert_only_listed_words(answer.text, "en-school", 1200, SCHOOL, **rules)
        block = answer.vocab
        assert block is not None
        assert (block["lang"], block["n_words"], block["unit"]) == ("en-school", 1200, "form")
        usual = ("auto", "standard", "sentence")
        changed = {
            key: value
            for key, value in options.items()
            if not key.endswith("_words") and (value not in usual or (key, value) == ("case", "sentence"))
        }
        assert changed.items() <= block.items()
        assert block["max_rank"] <= 1200
    if name == "numbers":
        assert any(char.isdigit() for answer in answers for char in answer.text)
    if name == "lines":
        # By itself this model writes none.
        headers = {"X-API-Key": KEY}
        tokens = httpx2.post(f"{service.url}/tokenize", json={"prompt": "\n"}, headers=headers).json()["tokens"]
        vocab = {"lang": "en-school", "n_words": 1200, **options}
        answer = service.ask(QUESTIONS[0], vocab, logit_bias={str(tokens[-1]): 20}, max_tokens=40)
        assert_only_listed_words(answer.text, "en-school", 1200, SCHOOL, **rules)
        assert "\n" in answer.text.strip()


@pytest.mark.fault(33)
def test_every_budget_gives_whole_sentences(service: Service) -> None:
    vocab = {"lang": "en-school", "end": "sentence"}

    def ask(max_tokens: int) -> Answer:
        return service.ask("Tell me a long story.", vocab, temperature=1, max_tokens=max_tokens, seed=max_tokens)

    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(ask, range(8, 41)):
            assert_only_listed_words(answer.text, "en-school", len(SCHOOL), SCHOOL, end="sentence", layout="prose")


def test_a_budget_too_small_for_a_sentence_is_refused_and_the_least_named(service: Service) -> None:
    error = refused(service, {"lang": "en-school", "end": "sentence"}, max_tokens=1)
    assert error["param"] == "max_tokens"
    assert "at least" in error["message"]


def test_lemmas_bring_their_forms(service: Service) -> None:
    by_form = load_word_list("es", None)
    by_lemma = group_by_lemma(by_form)
    n_words = dict(zip(by_lemma.words, by_lemma.ranks or (), strict=True))["comer"]
    allowed, forms = by_lemma.up_to(n_words).words, by_form.up_to(n_words).words
    assert "comió" in allowed
    assert "comió" not in forms
    vocab = {"lang": "es", "unit": "lemma", "n_words": n_words}
    for answer in several_answers(service, vocab, "¿Qué comió el perro de tu casa?"):
        assert_only_listed_words(answer.text, "es", len(allowed), allowed, layout="prose")
        assert answer.vocab is not None
        assert (answer.vocab["unit"], answer.vocab["max_rank"] <= n_words) == ("lemma", True)
    with_lemmas = forced(service, "comió", vocab)
    assert any("comió" in text.lower() for text in with_lemmas)
    assert not any("comió" in text.lower() for text in forced(service, "comió", {"lang": "es", "n_words": n_words}))


def forced(service: Service, word: str, vocab: dict[str, Any]) -> list[str]:
    """Answers in which the word's tokens are as likely as a bias makes them."""
    bias = {str(token): 60 for token in service.tokens_of(word)}
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(
                service.ask, f"{word} {word} {word}", vocab, logit_bias=bias, temperature=1, max_tokens=16, seed=seed
            )
            for seed in range(8)
        ]
        return [one.result().text for one in asked]


def test_a_list_of_ones_own_needs_no_name(service: Service) -> None:
    words = ["dog", "king", "in front of", "well-known", "the", "is", "says", "Paris", "don't", "rock & roll"]
    for answer in several_answers(service, {"words": words}):
        assert_only_listed_words(answer.text, "und", len(words), words, case="sentence", layout="prose")
        assert answer.vocab is not None
        assert (answer.vocab["lang"], answer.vocab["n_words"]) == (None, len(words))
    first = words[:3]
    for answer in several_answers(service, {"words": words, "n_words": 3}):
        assert_only_listed_words(answer.text, "und", 3, first, case="sentence", layout="prose")


def test_a_language_gives_ones_own_list_its_rules(service: Service) -> None:
    words = ["l'", "homme", "est", "là", "un", "chien", "d'", "eau", "aujourd'hui"]
    for answer in several_answers(service, {"words": words, "lang": "fr"}, "Raconte une histoire."):
        assert_only_listed_words(answer.text, "fr", len(words), words, layout="prose")


def test_added_names_are_written_and_words_left_out_are_not(service: Service) -> None:
    vocab = {"lang": "en-school", "n_words": 50}
    name = {**vocab, "extra_words": ["Zaragoza"]}
    assert any("Zaragoza" in text for text in forced(service, "Zaragoza", name))
    assert not any("Zaragoza" in text for text in forced(service, "Zaragoza", vocab))
    assert any("the" in text.lower().split() for text in forced(service, "the", vocab))
    without = {**vocab, "exclude_words": ["The"]}
    for text in forced(service, "the", without):
        assert "the" not in text.lower().split()


def test_small_changes_compile_no_list_again(service: Service) -> None:
    vocab = {"lang": "en-school", "n_words": 300, "punctuation": "basic", "numbers": True}
    plain = block_of(service.ask("Hello", vocab, max_tokens=6))
    changed = [
        block_of(service.ask("Hello", {**vocab, **changes}, max_tokens=6))
        for changes in ({"extra_words": ["Ana"]}, {"exclude_words": ["house"]}, {"layout": "lines"}, {"n_words": 700})
    ]
    assert {block["list_id"] for block in (plain, *changed)} == {plain["list_id"]}
    assert len({block["id"] for block in (plain, *changed[:3])}) == 4
    assert changed[3]["id"] == plain["id"]
    assert service.num_compiles(plain["list_id"]) <= 1


@pytest.mark.parametrize("name", ["en-odd", "fr-odd"])
def test_a_list_file_with_phrases_keeps_to_it(service: Service, name: str) -> None:
    words = LISTS[name]
    for answer in several_answers(service, {"lang": name, "end": "sentence"}):
        assert_only_listed_words(answer.text, name, len(words), words, end="sentence")


def test_a_hundred_first_requests_for_a_list_cause_one_compile(service: Service) -> None:
    # Other words in every run, for the store remembers.
    words = list({"".join(random.choices("abcdefghilmnoprstu", k=6)) for _ in range(2000)})

    def ask(number: int) -> dict[str, Any]:
        answer = service.ask("Write.", {"words": words, "n_words": 100 + number}, max_tokens=10, temperature=1)
        assert_only_listed_words(answer.text, "und", 100 + number, words)
        return block_of(answer)

    with ThreadPoolExecutor(100) as pool:
        [list_id] = {block["list_id"] for block in pool.map(ask, range(100))}
    assert service.num_compiles(list_id, at_least=1) == 1


@pytest.mark.fault(32)
def test_a_list_replaced_while_streams_run_counts_for_new_requests_only(service: Service, wordlist_dir: Path) -> None:
    old, new = ("the", "old", "river", "runs", "slowly"), ("a", "new", "house", "stands", "here")
    path = wordlist_dir / "en-changing.txt"
    vocab = {"lang": "en-changing"}
    path.write_text("\n".join(old) + "\n", encoding="utf-8")
    streams = [
        service.start("Write a lot.", vocab, stream=True, temperature=1, seed=seed, max_tokens=60) for seed in range(4)
    ]
    # Written beside it and renamed, as an operator should.
    beside = wordlist_dir / "en-changing.tmp"
    beside.write_text("\n".join(new) + "\n", encoding="utf-8")
    beside.replace(path)
    # A list that was asked for within the last second is not asked for again.
    time.sleep(1)
    after = [service.ask("Write a lot.", vocab, temperature=1, seed=seed, max_tokens=20) for seed in range(4)]
    before = [read_stream(stream) for stream in streams]
    for answers, words in ((before, old), (after, new)):
        for answer in answers:
            assert_only_listed_words(answer.text, "en-changing", len(words), words)
    [old_id], [new_id] = ({block_of(answer)["id"] for answer in answers} for answers in (before, after))
    assert old_id != new_id


@pytest.mark.fault(26)
def test_a_list_file_that_cannot_be_used_leaves_the_old_version_serving(service: Service, wordlist_dir: Path) -> None:
    path = wordlist_dir / "en-broken.txt"
    path.write_text("river\nstone\n", encoding="utf-8")
    before = block_of(service.ask("Write.", {"lang": "en-broken"}, max_tokens=8))
    path.write_bytes(b"river\nst\xffone\n")
    time.sleep(1)
    assert block_of(service.ask("Write.", {"lang": "en-broken"}, max_tokens=8))["id"] == before["id"]


@pytest.mark.parametrize(("vocab", "param", "part"), MISTAKES, ids=[str(vocab)[:40] for vocab, _, _ in MISTAKES])
def test_a_mistake_gets_an_error_that_names_the_place(
    service: Service, vocab: dict[str, Any], param: str, part: str
) -> None:
    error = refused(service, vocab)
    assert error["param"] == param
    assert part in error["message"]


def test_both_forms_of_a_vocabulary_together_are_refused(service: Service) -> None:
    error = refused(service, {"lang": "en-school"}, vocab_lang="en-school", vocab_n_words=5)
    assert "not both" in error["message"]


def test_words_made_of_operators_are_written_as_they_are(service: Service) -> None:
    for answer in several_answers(service, {"words": ODD_WORDS, "case": "listed"}):
        assert not unlisted_words(answer.text, "und", len(ODD_WORDS), ODD_WORDS, case="listed")


def block_of(answer: Answer) -> dict[str, Any]:
    assert answer.vocab is not None
    return answer.vocab


def refused(service: Service, vocab: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The error of a request that is a mistake of the client's."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9, "vocab": vocab}
    answer = httpx2.post(
        f"{service.url}/v1/chat/completions",
        json=body | fields,
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=60,
    )
    assert answer.status_code == 400, answer.text
    assert len(answer.content) <= 4096
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error
