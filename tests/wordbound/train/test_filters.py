"""Which texts are learned from."""

from dataclasses import replace

from wordbound.train.filters import FilterSettings, Text, choose_texts, without_last_sentence

SETTINGS = FilterSettings()
LONG = (
    "The farm has a small house near the river. Every morning the old man walks down to the water with his dog. "
    "They look for birds and listen to the wind before breakfast is ready. Later he tells his wife what they saw."
)


def text(content: str = LONG, **changes: object) -> Text:
    whole = Text("Tell me.", content, "en", 1000, has_end=True, num_tokens=70, bits_per_char=0.4)
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_a_text_is_left_out_for_a_reason() -> None:
    great = "One great day. My great dog. Our great house. That great river. Her great idea."
    for left_out, reason in (
        (text(num_tokens=19), "short"),
        (text("A dog and a dog and a dog and a dog and a dog."), "few different pairs of words"),
        (text(f"{LONG} The farm has a small house."), "repeated runs of words"),
        (text(great), "one word again and again"),
        (text("it has no end", has_end=False), "no whole sentence"),
    ):
        chosen, reasons = choose_texts([left_out], SETTINGS)
        assert (chosen, dict(reasons)) == ([], {reason: 1})


def test_the_least_likely_texts_of_each_size_of_list_are_left_out() -> None:
    texts = [
        text(f"Word{size}x{number} {LONG}", n_words=size, bits_per_char=size / 1000 + number / 100)
        for size in (500, 1000)
        for number in range(10)
    ]
    chosen, reasons = choose_texts(texts, SETTINGS)
    assert reasons == {"unlikely": 2}
    assert {t.bits_per_char for t in texts} - {t.bits_per_char for t in chosen} == {0.59, 1.09}


def test_of_texts_that_open_alike_the_likeliest_stay() -> None:
    texts = [text(f"{LONG} {number} more.", bits_per_char=number / 10) for number in range(5)]
    settings = replace(SETTINGS, max_bits_share=0, max_opening_share=0.4)
    chosen, reasons = choose_texts(texts, settings)
    assert [t.bits_per_char for t in chosen] == [0.0, 0.1]
    assert reasons == {"opens like others": 3}


def test_a_text_that_ran_into_its_budget_loses_its_last_sentence_and_teaches_no_end() -> None:
    cut = text(has_end=False)
    shorter = without_last_sentence(cut)
    assert shorter is not None
    assert shorter.text == LONG.removesuffix(" Later he tells his wife what they saw.")
    assert shorter.num_tokens == round(70 * len(shorter.text) / len(LONG))
    [chosen], _ = choose_texts([cut], SETTINGS)
    assert (chosen.text, chosen.has_end) == (shorter.text, False)


def test_short_texts_teach_no_end() -> None:
    for num_tokens, has_end in ((63, False), (64, True)):
        [chosen], _ = choose_texts([text(num_tokens=num_tokens)], SETTINGS)
        assert chosen.has_end is has_end
