"""What exercises are made of: sentences whose words are all listed, and words that resemble theirs."""

import pytest

from deployments.protocol.word_tools import EXERCISE_KINDS
from deployments.replica.word_tools.exercises import LANGUAGES
from deployments.replica.word_tools.sentences import NUM_FUNCTION_WORDS, ListedText
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

NUM_WORDS = 1000


def read(text: str, lang: str = "en", n_words: int = NUM_WORDS) -> ListedText:
    word_list = load_word_list(lang, None).up_to(n_words)
    return ListedText(text, TextChecker(word_list, ListOptions(), n_words), word_list)


def test_only_sentences_whose_words_are_all_listed_are_used() -> None:
    text = "The dog found some money. The walrus found it. Oh no! The dog found some money. He was very happy."
    made = read(text)
    assert [one.text for one in made.sentences] == ["The dog found some money.", "He was very happy."]
    assert (made.num_sentences, made.num_unlisted) == (5, 1)
    assert [text[one.start :].startswith(one.text) for one in made.sentences] == [True, True]


def test_what_can_be_asked_is_rare_and_not_first_in_its_sentence() -> None:
    text = "Money was on the road. In the summer some of them went to London with their dog."
    made = read(text)
    words = [[word.text for word in sentence.content] for sentence in made.sentences]
    assert words[0] == ["road"]
    assert set(words[1]) <= {"summer", "went", "dog", "London"}
    for sentence in made.sentences:
        ranks = [word.rank for word in sentence.content]
        assert ranks == sorted(ranks, reverse=True) and min(ranks) > NUM_FUNCTION_WORDS
        for word in sentence.content:
            assert text[word.start : word.end] == word.text
            assert "".join([sentence.around(word)[0], word.text, sentence.around(word)[1]]) == sentence.text


@pytest.mark.parametrize(
    ("lang", "text", "form"),
    [
        ("en", "Their children wanted to go home too.", "ed"),
        ("es", "El padre tenía una idea nueva.", "ía"),
        ("de", "Der Mann hatte eine neue Wohnung.", "ung"),
    ],
)
def test_words_like_one_have_its_form_and_are_no_other_form_of_it(lang: str, text: str, form: str) -> None:
    made = read(text, lang, 3000)
    [sentence] = made.sentences
    word = next(word for word in sentence.content if word.text.endswith(form))
    alike = made.alike(word, sentence)
    assert len(alike) > 10
    assert alike[0].endswith(form), alike[:5]
    assert not set(alike) & {*made.same_lemma(word.text), *sentence.words}
    before, after = sentence.around(word)
    assert all(made.allows(before + other + after) for other in alike)
    assert all(other[:1].isupper() == word.text[:1].isupper() for other in alike)


@pytest.mark.parametrize(
    ("lang", "text"),
    [("hi", "यह बहुत अच्छी किताब है।"), ("ar", "هذا كتاب جديد عن العالم."), ("tr", "Bu çok güzel bir kitap oldu.")],
)
def test_other_scripts_have_words_to_ask_for(lang: str, text: str) -> None:
    made = read(text, lang, 5000)
    [sentence] = made.sentences
    assert sentence.content
    assert made.alike(sentence.content[0], sentence)


def test_a_list_of_ones_own_is_in_any_order() -> None:
    words = WordList("en", ("dog", "cat", "ran", "the", "home"), "inline")
    made = ListedText("The dog ran home.", TextChecker(words, ListOptions(), 5), words)
    assert {word.text for word in made.sentences[0].content} == {"dog", "ran", "home"}
    assert made.alike(made.sentences[0].content[0], made.sentences[0]) != []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_instruction_is_in_a_thousand_words(lang: str) -> None:
    instructions = LANGUAGES[lang]["instructions"]
    assert instructions.keys() == set(EXERCISE_KINDS)
    made = read("", lang)
    assert [line for line in instructions.values() if not made.allows(line)] == []


def test_examples_ask_for_a_word_of_their_sentence_and_do_not_say_it() -> None:
    with_examples = {lang: examples for lang, examples in LANGUAGES.items() if "questions" in examples}
    assert with_examples.keys() == {"en", "es", "de", "fr", "zh", "zh-Hant", "ja", "th"}
    for examples in with_examples.values():
        for sentence, word, question in examples["questions"]:
            assert word in sentence and word.casefold() not in question.casefold() and question.endswith(("?", "？"))
        assert all(word.casefold() not in gloss.casefold() for word, gloss in examples["glosses"])


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("zh", "孩子们在学校里学习中文。老师给他们讲故事。"),
        ("zh-Hant", "孩子們在學校裡學習中文。老師給他們講故事。"),
        ("ja", "私は学校で日本語を勉強しています。先生は本を読みました。"),
        ("th", "เด็กเรียนภาษาอังกฤษที่โรงเรียน"),
    ],
)
def test_words_of_a_text_without_spaces_are_asked_for_and_others_stand_in_their_place(lang: str, text: str) -> None:
    made = read(text, lang, 5000)
    [sentence, *_] = made.sentences
    word = sentence.content[0]
    assert len(word.text) >= 2 and word.text in made.words_in(sentence.text)
    alike = made.alike(word, sentence)
    assert alike and word.text not in alike
    before, after = sentence.around(word)
    for other in alike:
        words = made.words_in(before + other + after)
        assert other in words and made.allows(before + other + after)


def test_a_chinese_question_is_known_by_its_mark_and_its_words() -> None:
    made = read("孩子们在学校里学习中文。", "zh", 5000)
    [sentence] = made.sentences
    word = next(word for word in sentence.content if word.text == "学校")
    assert made.is_question("孩子们在哪里学习中文？", sentence, word)
    assert not made.is_question("孩子们在学校里学习中文？", sentence, word)
    assert not made.is_question("孩子们在哪里学习中文。", sentence, word)
