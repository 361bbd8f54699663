"""Which words of a prompt a vocabulary takes up, in which forms, and what the lists have to do with it."""

from typing import Any

import pytest

from deployments.contract import VocabularySpec
from deployments.errors import OverloadedError
from deployments.settings.limits import MAX_CHANGED_WORDS, Limits
from deployments.vocabulary.queries import ListQueries
from tests.deployments.vocabulary.world import Lists, own, spec

MAP = "Write a short story about a dog who finds a map."


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> ListQueries:
    folder = tmp_path_factory.mktemp("lists")
    (folder / "en_school.txt").write_text("the\na\ndog\nfinds\nhas\n", encoding="utf-8")
    (folder / "tlh.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return ListQueries(folder, Limits())


async def found(lists: ListQueries, prompt: str, lang: str | None = "en", **fields: Any) -> dict[str, tuple[str, ...]]:
    asked = VocabularySpec.model_validate({"lang": lang, "n_words": 1000, "prompt": prompt, **fields})
    return {one.word: one.forms for one in await lists.prompt_words(asked)}


@pytest.mark.parametrize(
    ("lang", "prompt", "words"),
    [
        ("en", MAP, "finds map"),
        ("en", "Please explain briefly how volcanoes erupt. Summarize it in two sentences.", "volcanoes erupt"),
        ("es", "Cuenta una historia corta sobre un perro que encuentra un mapa. Explica todo.", "perro mapa"),
        ("de", "Schreibe eine kurze Geschichte über einen hund, der eine KARTE findet.", "Hund Karte"),
        ("fr", "Décris l'orage et le chien en phrases simples, s'il te plaît.", "orage chien"),
        ("it", "Scrivi una breve storia su un cane che trova una mappa. Spiega.", "cane mappa"),
        ("pt", "Escreva um conto sobre um cachorro que encontra um mapa. Descreva.", "cachorro mapa"),
        ("nl", "Schrijf een kort verhaal over brood. Vertel het in eenvoudige zinnen.", "brood"),
        ("ru", "Напиши короткий рассказ: хлеб и карту. Объясни, пожалуйста.", "хлеб карту"),
        ("zh", "写一个关于狗找到地图的故事。", "地图"),
        ("en", "Tell me about Xyzzyx, wizzardd and 1,000 😀!", ""),
        ("en", "", ""),
    ],
)
async def test_content_words_beyond_n_are_found_and_instructions_function_words_and_unknown_ones_are_not(
    lists: ListQueries, lang: str, prompt: str, words: str
) -> None:
    assert list(await found(lists, prompt, lang)) == words.split()


async def test_each_word_comes_once_with_the_forms_of_its_lemma_that_are_not_listed(lists: ListQueries) -> None:
    assert (await found(lists, "maps, a map, the maps"))["maps"] == ("map", "mapped")
    assert (await found(lists, "Der Hund des Hundes", "de")) == {"Hund": ("Hunde", "Hunden", "Hundes")}
    # "find" and "found" are listed.
    assert (await found(lists, MAP))["finds"] == ()
    ranks = {one.word: one.rank for one in await lists.prompt_words(spec("en", 1000, prompt=MAP))}
    assert 1000 < ranks["map"] < ranks["finds"] < 3000
    # Of lemmas, all forms have the rank.
    assert "maps" in (await found(lists, MAP, unit="lemma"))["map"]
    assert await found(lists, MAP, n_words=None) == {}


async def test_words_that_the_request_added_or_left_out_stay_as_they_are(lists: ListQueries) -> None:
    assert list(await found(lists, MAP, extra_words=["map"])) == ["finds"]
    assert list(await found(lists, MAP, exclude_words=["Map", "dog"])) == ["finds"]
    assert (await found(lists, MAP, exclude_words=["mapped"]))["map"] == ("maps",)
    assert list(await found(lists, MAP, words=("the", "dog"), exclude_words=["map"])) == ["finds"]


async def test_a_list_of_ones_own_takes_words_of_its_languages_list(lists: ListQueries) -> None:
    for fields in ({"lang": "en_school"}, {"lang": "en", "words": ("the", "a", "dog", "finds", "has")}):
        # "about" and "who" are function words.
        assert list(await found(lists, MAP, **fields)) == ["map"]
    assert await found(lists, MAP, "tlh") == {}
    assert await found(lists, "three", "tlh", n_words=1) == {}
    assert await found(lists, MAP, None, words=("the", "dog")) == {}


async def test_the_rarest_eight_are_taken_and_a_pasted_text_none(lists: ListQueries) -> None:
    rare = ["bread", "map", "wolf", "poison", "harbour", "ladder", "pumpkin", "hedgehog", "lantern"]
    assert list(await found(lists, " ".join(rare))) == [word for word in rare if word != "map"]
    assert list(await found(lists, "the " * 58 + "map")) == ["map"]
    assert await found(lists, "the " * 59 + "map") == {}


async def test_they_have_the_room_that_extra_words_leave(lists: ListQueries) -> None:
    many = tuple(f"x{'a' * number}" for number in range(MAX_CHANGED_WORDS))
    for room, forms in ((0, None), (1, ()), (2, ("maps",))):
        words = await found(lists, "map", extra_words=many[room:])
        assert words == ({} if forms is None else {"map": forms})
    # Of a Turkish verb there are more.
    assert len((await found(lists, "bulan", "tr"))["bulan"]) == 31


async def test_a_vocabulary_with_a_prompt_allows_its_words_and_names_them(world: Lists) -> None:
    world.write("en_pets", "the", "cat")
    vocabulary = await world.vocabulary()
    plain = await vocabulary.resolve(spec("en_pets", 2))
    resolved = await vocabulary.resolve(spec("en_pets", 2, prompt="The map."))
    asked = await vocabulary.resolve(spec("en_pets", 2, extra_words=("map", "maps", "mapped")))
    assert [one.word for one in resolved.prompt_words or ()] == ["map"]
    assert resolved == asked.model_copy(update={"prompt_words": resolved.prompt_words})
    assert world.allows(resolved, "the maps") and not world.allows(plain, "the maps")
    assert (plain.prompt_words, asked.prompt_words) == (None, None)
    none = await vocabulary.resolve(own("the", "cat", lang="en", prompt="The cat"))
    assert (none.prompt_words, none.changes_digest) == ((), None)


async def test_where_too_many_wait_the_request_is_refused(world: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = await world.vocabulary()

    async def full(*_: object) -> None:
        raise OverloadedError("Too many texts are being checked.", 1)

    monkeypatch.setattr(vocabulary.lists, "prompt_words", full)
    refused = await vocabulary.resolve_or_refuse(spec("en", 2, prompt="The map"))
    assert isinstance(refused, OverloadedError)
