from pathlib import Path

import pytest

from tests.small_tokenizer import small_speller
from vocab.artefacts.store import ArtefactStore
from vocab.compiler.worker import load_stored_tokenizer, store_tokenizer
from vocab.errors import ArtefactError


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path, 10**6)


def test_a_tokenizer_comes_back_as_it_was(store: ArtefactStore) -> None:
    speller = small_speller(["the", "niño"])
    path = store_tokenizer(speller, store)
    loaded = load_stored_tokenizer(speller.digest, store)
    assert loaded.facts == speller.facts
    assert loaded.spell([" the niño"]) == speller.spell([" the niño"])
    assert store_tokenizer(speller, store) == path


def test_a_damaged_or_foreign_file_is_refused(store: ArtefactStore) -> None:
    speller, other = small_speller(["the"]), small_speller(["cat"])
    data = store_tokenizer(speller, store).read_bytes()
    for bad in (b"nonsense", data[:-3], store_tokenizer(other, store).read_bytes()):
        store.write_bytes(speller.digest, bad)
        with pytest.raises(ArtefactError):
            load_stored_tokenizer(speller.digest, store)
    with pytest.raises(ArtefactError):
        load_stored_tokenizer("0" * 64, store)
