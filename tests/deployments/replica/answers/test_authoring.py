"""What an author asks, found in a list and read in an answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from deployments.contract import AskedWord, AuthorControls, NewWordsAsked, ResolvedVocabulary
from deployments.errors import EngineError
from deployments.replica.answers.authoring import AuthoredText
from deployments.replica.answers.constrained_answer import AnswerRules, UnlistedTextError, finish_answer
from deployments.replica.engine.node_lists import NodeList, NodeLists
from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder, overlay_to_bytes
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.overlay import build_overlay
from vocab.automaton.trie_builder import build_words
from vocab.matching.controls import NewWords
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

WORDS = ["the", "a", "dog", "goes", "went", "house", "elephant", "river", "zebra"]
N = 6


@pytest.fixture
async def listed(tmp_path: Path) -> NodeList:
    speller = toy_speller(toy_tokenizer([]))
    words = build_words(word_list(WORDS, "en"), speller)
    overlay = build_overlay(words, ListChanges(("Ana", "river")), speller)
    folder = ArtefactFolder(tmp_path)
    folder.save(words)
    folder.write_bytes(overlay.digest, overlay_to_bytes(overlay))

    async def nowhere(digest: str) -> bytes:
        raise AssertionError("the artefacts lie on this node")

    lists = NodeLists(ArtefactStore(tmp_path, 2**30), nowhere, "automaton")
    return await lists.get(
        ResolvedVocabulary(
            digest=words.digest,
            changes_digest=overlay.digest,
            options=ListOptions(end="sentence"),
            lang="en",
            n_words=N,
            fewest_tokens=2,
        )
    )


def authored(listed: NodeList, **asked: object) -> AuthoredText:
    return AuthoredText.of(AuthorControls(**asked), listed, 99)  # type: ignore[arg-type]


def test_required_words_are_known_by_their_ranks_and_as_added(listed: NodeList) -> None:
    found = authored(listed, must_use=(AskedWord("dog"), AskedWord("Ana", 2), AskedWord("river")))
    assert [(one.ranks, one.count) for one in found.controls.must_use] == [((3,), 1), ((-1,), 2), ((-2,), 1)]
    assert found.controls.num_tokens == 99


def test_a_required_word_may_come_in_any_listed_form_of_its_lemma(listed: NodeList) -> None:
    assert authored(listed, must_use=(AskedWord("goes", any_form=True),)).controls.must_use[0].ranks == (4, 5)
    assert authored(listed, must_use=(AskedWord("goes"),)).controls.must_use[0].ranks == (4,)


def test_a_required_word_that_cannot_be_spelled_is_an_error(listed: NodeList) -> None:
    with pytest.raises(EngineError, match=r"must_use\[1\].*tokenizer"):
        authored(listed, must_use=(AskedWord("dog"), AskedWord("zzz")))


def test_the_answer_lists_its_new_words(listed: NodeList) -> None:
    found = authored(listed, new_words=NewWordsAsked(9, 50))
    assert found.controls.new_words == NewWords(9, 2)
    text = "Elephant went. The elephant, the zebra."
    assert not found.has_too_many_new_words(text)
    assert found.block([text])["new_words"] == [
        {"word": "elephant", "rank": 7, "lemma": "elephant", "start": 0, "count": 2},
        {"word": "zebra", "rank": 9, "lemma": "zebra", "start": 33, "count": 1},
    ]


def test_an_added_word_is_never_new(listed: NodeList) -> None:
    found = authored(listed, new_words=NewWordsAsked(9))
    assert found.block(["The river goes."])["new_words"] == []


@pytest.mark.parametrize(
    ("asked", "text", "is_too_many"),
    [
        (NewWordsAsked(9, 50), "The elephant zebra.", True),
        (NewWordsAsked(9, 50), "The elephant a zebra.", False),
        (NewWordsAsked(9, 100, 1), "The elephant, the zebra.", True),
        (NewWordsAsked(9, 100, 1), "The elephant, the elephant.", False),
        (None, "The dog.", False),
    ],
)
def test_new_words_beyond_what_was_asked_are_our_fault(
    listed: NodeList, asked: NewWordsAsked | None, text: str, is_too_many: bool
) -> None:
    found = authored(listed, new_words=asked)
    rules = AnswerRules(found.reader, {}, False, False, authored=found)
    answer = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    if not is_too_many:
        assert "vocab" in finish_answer(answer, rules)
        return
    with pytest.raises(UnlistedTextError, match="new words"):
        finish_answer(answer, rules)


def test_the_answer_says_which_required_words_came(listed: NodeList) -> None:
    found = authored(listed, must_use=(AskedWord("dog", 2), AskedWord("Ana")))
    block = found.block(["The dog's house. Ana. A dog."])
    assert block["must_use"] == [
        {"word": "dog", "count": 2, "used": 2},
        {"word": "Ana", "count": 1, "used": 1},
    ]
    assert found.block(["A dog.", "Ana."])["must_use"][0]["used"] == 0


def test_a_required_word_from_beyond_the_list_is_counted_beside_new_words(listed: NodeList) -> None:
    found = authored(listed, new_words=NewWordsAsked(9, 50), must_use=(AskedWord("river"),))
    assert found.block(["The river goes."]) == {
        "new_words": [],
        "must_use": [{"word": "river", "count": 1, "used": 1}],
    }


def test_the_answer_counts_its_sentences(listed: NodeList) -> None:
    block = authored(listed, max_sentence_words=9).block(["The dog goes! A house."])
    assert block == {"num_sentences": 2, "longest_sentence": 3}


def test_only_what_was_asked_is_named() -> None:
    assert AuthorControls(max_sentences=3).fields == ["vocab.max_sentences"]


class Tokenizer:
    """Two characters are a token, a blank belongs to the next, and of 龘 a token has only the first bytes."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[str]:
        assert not add_special_tokens
        blank, rest = (" ", text[1:]) if text.startswith(" ") else ("", text)
        return [blank + rest[:2], *(rest[at : at + 2] for at in range(2, len(rest), 2))]

    def decode(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("龘", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("lang", "biased"),
    [("en", {" do": 2.0, "Do": 2.0, " 大学": 4.0, "大学": 4.0}), ("zh", {"do": 2.0, "大学": 4.0})],
)
def test_required_words_are_likelier_as_they_are_written_in_the_language(
    listed: NodeList, lang: str, biased: dict[str, float]
) -> None:
    found = replace(
        authored(listed, must_use=(AskedWord("dog"),)),
        lang=lang,
        must_use=(AskedWord("dog"), AskedWord("大学"), AskedWord("龘")),
    )
    bias = found.logit_bias(Tokenizer())
    assert {token: value for token, value in bias.items() if token in biased} == biased
    assert not any("龘" in token for token in bias)
