from tests.vocab.toys import toy_tokenizer, word_list
from vocab.automaton.spelling import spellable
from vocab.automaton.token_trie import TokenTrie
from vocab.lists.wordlists import WordList


def dropped(words: list[str], pieces: list[str], lacking: bytes) -> tuple[str, ...]:
    return spellable(word_list(words), TokenTrie.of(toy_tokenizer(pieces, lacking=lacking)))[1]


def test_a_tokenizer_with_every_byte_spells_everything() -> None:
    assert dropped(["día", "日本"], [], b"") == ()


def test_a_word_may_be_spelled_by_tokens_that_hold_a_byte_which_is_none_itself() -> None:
    assert dropped(["niño", "ñandú", "año"], ["iñ", "ño"], "ñ".encode()) == ("ñandú",)


def test_the_first_token_may_bring_the_blank_along() -> None:
    assert dropped(["ñu", "uñ"], [" ñ"], "ñ".encode()) == ("uñ",)
    assert dropped(["ñu", "x"], ["xñ"], "ñ".encode() + b" ") == ("ñu",)
    assert dropped(["sol", "s"], ["ol"], b"o") == ()


def test_ranks_close_up() -> None:
    words = WordList("es", ("ñu", "sol", "soles", "mar"), "file", (1, 2, 2, 3))
    kept, _ = spellable(words, TokenTrie.of(toy_tokenizer([], lacking="ñ".encode())))
    assert kept.words == ("sol", "soles", "mar")
    assert kept.ranks == (1, 1, 2)
