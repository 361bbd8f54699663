"""A decoder that is trained from nothing, and served."""

import random
from itertools import islice
from pathlib import Path

import pytest
import wordfreq

from tests.checker import assert_only_listed_words
from tests.e2e.service import running
from tests.harness import Demo
from wordbound.train import DecoderConfig, train_decoder

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

N_WORDS = 500
CONTEXT = 128


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 kB of sentences whose words are as frequent as in English, in documents of a question and its answer."""
    words = list(islice((word for word in wordfreq.iter_wordlist("en") if word.isalpha()), 3000))
    weights = [wordfreq.word_frequency(word, "en") for word in words]
    chosen = random.Random(0)
    documents, size = [], 0
    while size < 300_000:
        sentences = [" ".join(chosen.choices(words, weights, k=8)).capitalize() + "." for _ in range(5)]
        documents.append(f"Tell me about a {chosen.choice(words)}.\n{' '.join(sentences)}")
        size += len(documents[-1])
    file = tmp_path_factory.mktemp("decoder") / "text.txt"
    file.write_text("\n\n".join(documents), encoding="utf-8")
    return file


def test_it_answers_in_listed_words(text: Path) -> None:
    config = DecoderConfig(
        text,
        text.with_name("model"),
        vocab_size=1024,
        hidden_size=64,
        num_layers=2,
        num_heads=2,
        context=CONTEXT,
        epochs=1,
    )
    folder = train_decoder(config)
    args = {
        "engine_kwargs": {"enforce_eager": True, "max_model_len": CONTEXT, "max_num_seqs": 8},
        "limits": {"max_input_tokens": CONTEXT // 2, "max_new_tokens": CONTEXT // 2},
    }
    with running(Demo(str(folder), text.with_name("service"), args)) as service:
        completion = service.client.chat.completions.create(
            model=service.client.models.list().data[0].id,
            messages=[{"role": "user", "content": "Tell me about a dog."}],
            max_tokens=40,
            seed=1,
            extra_body={"vocab": {"lang": "en", "n_words": N_WORDS}},
        )
    answer = completion.choices[0].message.content
    assert answer
    print(answer)
    assert_only_listed_words(answer, "en", N_WORDS)
