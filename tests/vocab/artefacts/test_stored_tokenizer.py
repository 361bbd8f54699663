from pathlib import Path

import pytest

from tests.vocab.toys import toy_tokenizer
from vocab.artefacts.store import ArtefactStore
from vocab.artefacts.stored_tokenizer import load_stored_tokenizer, store_tokenizer, stored_trie
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError


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


def test_a_trie_is_made_once(store: ArtefactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = toy_tokenizer(["the", "niño"])
    made = stored_trie(tokenizer, store)
    monkeypatch.setattr(TokenTrie, "of", None)
    found = stored_trie(tokenizer, store)
    assert found.to_bytes() == made.to_bytes()


def test_a_damaged_or_foreign_trie_is_made_again(store: ArtefactStore, tmp_path: Path) -> None:
    tokenizer = toy_tokenizer(["the", "niño"])
    good = stored_trie(tokenizer, store).to_bytes()
    [path] = tmp_path.iterdir()
    for bad in (b"nonsense", good[:-3], TokenTrie.of(toy_tokenizer(["cat"])).to_bytes()):
        path.write_bytes(bad)
        assert stored_trie(tokenizer, store).to_bytes() == good
        assert path.read_bytes() == good


def test_a_trie_that_cannot_be_stored_is_of_use_still(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tokenizer = toy_tokenizer(["the"])
    assert stored_trie(tokenizer, ArtefactStore(tmp_path / "file", 10**6)).digest == tokenizer.digest
