"""What an author asks: named to the engine, and read in its answer."""

from typing import Any

import pytest

from deployments.contract import AskedWord, AuthorControls, Decoding, NewWordsAsked, ResolvedVocabulary, VocabularySpec
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import ReplicaWorld, block, refusal
from vocab.matching.controls import NewWords
from vocab.options import ListOptions

WORDS = ("the", "a", "dog", "goes", "went", "house", "elephant", "river", "zebra")
NEW = NewWordsAsked(9, 50)
"""Half of the words may be new."""


@pytest.fixture
def listed(world: ReplicaWorld) -> ResolvedVocabulary:
    """The first six words and two that the request adds, in sentences; the others may come in as new ones."""
    world.add_list(WORDS, "en-authored")
    spec = VocabularySpec(lang="en-authored", n_words=6, extra_words=("Ana", "river"))
    return world.resolve(spec, ListOptions(end="sentence", possessive=True))


async def ask(world: ReplicaWorld, listed: ResolvedVocabulary, *texts: str, **asked: Any) -> list[Any]:
    world.engine.said = [Said((text,)) for text in texts]
    how = Decoding(no_repeat_ngram_size=0, author=AuthorControls(**asked))
    return await world.ask(listed, how, n=len(texts), max_tokens=99)


async def test_required_words_are_known_by_their_ranks_and_as_added(
    world: ReplicaWorld, listed: ResolvedVocabulary
) -> None:
    must_use = (AskedWord("dog"), AskedWord("Ana", 2), AskedWord("river"), AskedWord("goes", any_form=True))
    await ask(world, listed, "A dog.", must_use=must_use)
    controls = world.reference.controls
    assert controls is not None
    asked = [(one.ranks, one.count) for one in controls.must_use]
    assert asked == [((3,), 1), ((-1,), 2), ((-2,), 1), ((4, 5), 1)]
    assert controls.num_tokens == 99


async def test_a_required_word_that_cannot_be_spelled_is_an_error(
    world: ReplicaWorld, listed: ResolvedVocabulary
) -> None:
    error = refusal(await ask(world, listed, "A dog.", must_use=(AskedWord("dog"), AskedWord("zzz"))))
    assert (error.status, error.param) == (400, "vocab.must_use[1].word")
    assert "tokenizer" in error.message


async def test_the_answer_lists_its_new_words_and_added_ones_are_never_new(
    world: ReplicaWorld, listed: ResolvedVocabulary
) -> None:
    items = await ask(world, listed, "Elephant went. The elephant, the zebra.", new_words=NEW)
    assert world.reference.controls is not None
    assert world.reference.controls.new_words == NewWords(9, 2)
    assert block(items)["new_words"] == [
        {"word": "elephant", "rank": 7, "lemma": "elephant", "start": 0, "count": 2},
        {"word": "zebra", "rank": 9, "lemma": "zebra", "start": 33, "count": 1},
    ]
    assert block(await ask(world, listed, "The river goes.", new_words=NEW))["new_words"] == []


async def test_new_words_beyond_what_was_asked_are_our_fault(world: ReplicaWorld, listed: ResolvedVocabulary) -> None:
    faults = []
    for new_words, text, is_too_many in (
        (NEW, "The elephant zebra.", True),
        (NEW, "The elephant a zebra.", False),
        (NewWordsAsked(9, 100, 1), "The elephant, the zebra.", True),
        (NewWordsAsked(9, 100, 1), "The elephant, the elephant.", False),
        (None, "The dog.", False),
    ):
        [answer] = await ask(world, listed, text, new_words=new_words, max_sentence_words=9)
        if (getattr(answer, "code", None) == "unlisted_text") is not is_too_many:
            faults.append((new_words, text, answer))
    assert not faults


async def test_the_answer_says_which_required_words_came_and_counts_its_sentences(
    world: ReplicaWorld, listed: ResolvedVocabulary
) -> None:
    must_use = (AskedWord("dog", 2), AskedWord("Ana"))
    found = block(await ask(world, listed, "The dog's house. Ana. A dog.", must_use=must_use, max_sentence_words=9))
    assert found["must_use"] == [{"word": "dog", "count": 2, "used": 2}, {"word": "Ana", "count": 1, "used": 1}]
    assert (found["num_sentences"], found["longest_sentence"]) == (3, 3)
    # Of several texts, the fewest.
    assert block(await ask(world, listed, "A dog.", "Ana.", must_use=must_use))["must_use"][0]["used"] == 0
    # A required word from beyond the list is counted beside new words.
    items = await ask(world, listed, "The river goes.", new_words=NEW, must_use=(AskedWord("river"),))
    assert block(items)["must_use"] == [{"word": "river", "count": 1, "used": 1}]


async def test_required_words_are_likelier_as_they_are_written_in_the_language(
    world: ReplicaWorld, listed: ResolvedVocabulary
) -> None:
    await ask(world, listed, "A dog.", must_use=(AskedWord("dog"), AskedWord("goes")))
    english = {" dog": 4, "Dog": 4, " goes": 4, "Goes": 2}
    assert world.params.logit_bias == {world.tokenizer.encode(text)[0]: bias for text, bias in english.items()}
    # Without blanks and capitals; of 龘 a token has only the first bytes.
    chinese = world.add_list(("大", "大学", "龘"), "zh")
    await ask(world, chinese, "大学。", must_use=(AskedWord("大学"), AskedWord("大"), AskedWord("龘")))
    assert world.params.logit_bias == {world.tokenizer.encode("大")[0]: 4}
    await ask(world, chinese, "大学。", must_use=(AskedWord("大学"), AskedWord("龘")))
    assert world.params.logit_bias == {world.tokenizer.encode("大")[0]: 2}
