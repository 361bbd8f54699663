from pathlib import Path

import pytest

from vocab.artefacts.store import ArtefactStore
from vocab.compiler import worker
from vocab.compiler.worker import group_list_by_lemma
from vocab.errors import NoLemmasError
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import WordList

SPANISH = WordList("es", ("casa", "come", "casas", "comer", "perro"), "file")
OTHER = WordList("es", ("casas", "perros", "come", "perro", "comer"), "file")


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path, 10**6)


def refuse_to_group(word_list: WordList) -> WordList:
    raise RuntimeError(f"{word_list.lang} was grouped again")


def test_a_list_is_grouped_once(store: ArtefactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    grouped = group_list_by_lemma(SPANISH, store)
    assert grouped == group_by_lemma(SPANISH)
    assert grouped.ranks == (1, 1, 2, 2, 3)
    monkeypatch.setattr(worker, "group_by_lemma", refuse_to_group)
    assert group_list_by_lemma(SPANISH, store) == grouped
    with pytest.raises(RuntimeError, match="grouped again"):
        group_list_by_lemma(OTHER, store)


def test_a_damaged_or_foreign_file_is_made_again(store: ArtefactStore, tmp_path: Path) -> None:
    group_list_by_lemma(SPANISH, store)
    (path,) = tmp_path.iterdir()
    group_list_by_lemma(OTHER, store)
    (foreign,) = set(tmp_path.iterdir()) - {path}
    whole = path.read_bytes()
    for bad in (whole[:-5], foreign.read_bytes(), b""):
        path.write_bytes(bad)
        assert group_list_by_lemma(SPANISH, store) == group_by_lemma(SPANISH)
        assert path.read_bytes() == whole


def test_a_language_without_lemmas_leaves_no_file(store: ArtefactStore, tmp_path: Path) -> None:
    with pytest.raises(NoLemmasError):
        group_list_by_lemma(WordList("ko", ("집",), "file"), store)
    assert not list(tmp_path.iterdir())
