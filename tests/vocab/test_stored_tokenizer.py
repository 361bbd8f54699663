from pathlib import Path

import pytest

from tests.vocab.toys import toy_tokenizer
from vocab.errors import ArtefactError
from vocab.store import ArtefactStore
from vocab.stored_tokenizer import load_stored_tokenizer, store_tokenizer
from vocab.tokenizer import TokenizerFacts


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path, 10**6)


@pytest.mark.parametrize("tokenizer", [toy_tokenizer(["the", "niño"]), TokenizerFacts((b"", b"")), TokenizerFacts(())])
def test_a_tokenizer_comes_back_as_it_was(store: ArtefactStore, tokenizer: TokenizerFacts) -> None:
    path = store_tokenizer(tokenizer, store)
    assert load_stored_tokenizer(tokenizer.digest, store) == tokenizer
    assert store_tokenizer(tokenizer, store) == path


def test_a_damaged_or_foreign_file_is_refused(store: ArtefactStore) -> None:
    tokenizer, other = toy_tokenizer(["the"]), toy_tokenizer(["cat"])
    data = store_tokenizer(tokenizer, store).read_bytes()
    for bad in (b"nonsense", data[:-3], store_tokenizer(other, store).read_bytes()):
        store.write_bytes(tokenizer.digest, bad)
        with pytest.raises(ArtefactError):
            load_stored_tokenizer(tokenizer.digest, store)
    with pytest.raises(ArtefactError):
        load_stored_tokenizer("0" * 64, store)
