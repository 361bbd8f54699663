"""Languages written without spaces: their words are segments, wherever a person meets them on the page."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.axe import assert_accessible
from tests.page.browser import Faults

pytestmark = pytest.mark.e2e

HSK = "Simplified\tPinyin\tMeaning\n" + "".join(
    f"{word}\t-\t-\n"
    for word in (
        *("我们", "喜欢", "学校", "公园", "大学", "孩子们", "老师", "他们", "故事", "中文", "朋友", "今天", "天气"),
        *("在", "去", "的", "很", "好", "里", "学习", "给", "讲", "了", "看见", "一个", "有意思", "和", "水果", "吃"),
    )
)
SENTENCES = (
    "今天天气很好，孩子们去学校学习中文。",
    "老师给他们讲了一个有意思的故事。",
    "孩子们在公园里看见了朋友，吃了水果。",
    "𠮷祥长大了，看见了长城！",
)
STORY = "".join(SENTENCES) * 4


def choose(page: Page, lang: str) -> None:
    page.get_by_label("Language").select_option(lang)


def check(page: Page, text: str) -> None:
    page.get_by_label("Text to check", exact=True).fill(text)
    expect(page.locator(".editor .word").first).to_be_visible()
    expect(page.locator(".report")).to_have_attribute("aria-busy", "false")


def word(page: Page, spelling: str) -> Locator:
    return page.locator(".editor .word").get_by_text(spelling, exact=True).first


@pytest.fixture
def checking(page: Page) -> Page:
    page.get_by_role("tab", name="Check").click()
    return page


def test_a_chinese_text_from_a_list_of_a_file_to_print(page: Page, tmp_path: Path) -> None:
    assert len(STORY) > 200
    # A list from a file, as HSK's tables are.
    page.get_by_role("tab", name="My lists").click()
    choose(page, "zh")
    file = tmp_path / "HSK.tsv"
    file.write_text(HSK, encoding="utf-8")
    page.get_by_label("Choose a file").set_input_files(file)
    read = page.get_by_label("What was read")
    expect(read.get_by_role("status")).to_contain_text("29 words.")
    expect(read).to_contain_text('Columns: word from "Simplified"', ignore_case=True)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("Find a word").fill("学")
    expect(page.locator(".list-words li")).to_have_text(["学校", "大学", "学习"])
    page.get_by_role("button", name="Write with it").click()
    # A text that is checked with it.
    page.get_by_role("tab", name="Check").click()
    check(page, STORY)
    words = page.locator(".editor .words")
    expect(words).to_have_attribute("lang", "zh-Hans")
    assert words.inner_text() == STORY, "no blanks come between the words"
    expect(page.locator(".editor .is-not-allowed")).to_have_text(["𠮷", "祥", "长大", "长城"] * 4)
    expect(page.locator(".ring p")).to_contain_text("140 words")
    # A word is hovered, then swapped.
    word(page, "公园").hover(force=True)
    popover = page.get_by_role("dialog", name="The word 公园")
    expect(popover).to_contain_text("in the list")
    box = word(page, "公园").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 4, box["y"] + box["height"] / 2)
    page.get_by_role("button", name="Swap").click()
    choices = page.get_by_role("group", name="Other words for it").get_by_role("button")
    expect(choices.first).to_be_visible()
    by = choices.first.inner_text()
    choices.first.click()
    changed = STORY.replace("公园", by, 1)
    expect(page.get_by_label("Text to check", exact=True)).to_have_value(changed)
    expect(page.locator(".report")).to_have_attribute("aria-busy", "false")
    # How it is read, on the page and in print.
    page.get_by_label("With readings (pinyin)").check()
    read = page.get_by_label("Text to check: how it is read")
    expect(read.locator("ruby").filter(has_text="长大").first).to_have_text("长大(zhǎngdà)")
    expect(read.locator("ruby").filter(has_text="长城").first).to_have_text("长城(chángchéng)")
    assert_accessible(page)
    page.get_by_role("button", name="Print or save").click()
    expect(page.get_by_label("With readings (pinyin)").last).to_be_checked()
    assert_accessible(page)
    page.evaluate("window.print = () => undefined")
    page.get_by_role("button", name="Print", exact=True).click()
    sheet = page.locator("#handout article")
    expect(sheet).to_have_attribute("lang", "zh-Hans")
    expect(sheet.locator("rt").get_by_text("zhǎngdà")).to_have_count(4)
    assert sheet.evaluate("sheet => [...sheet.querySelectorAll('rt, rp')].forEach((one) => one.remove())") is None
    assert (sheet.text_content() or "") == changed


@pytest.mark.parametrize(
    ("lang", "text", "words", "tag"),
    [
        ("zh-Hant", "他在學校學習中文。", ["他", "在", "學校", "學習", "中文"], "zh-Hant"),
        ("ja", "私は学校で勉強しています。", ["私", "は", "学校", "で", "勉強", "し", "て", "い", "ます"], "ja"),
        ("th", "แมวตัวเล็กวิ่งเร็วมาก", ["แมว", "ตัว", "เล็ก", "วิ่ง", "เร็ว", "มาก"], "th"),
    ],
)
def test_words_are_those_of_the_dictionary(checking: Page, lang: str, text: str, words: list[str], tag: str) -> None:
    choose(checking, lang)
    check(checking, text)
    expect(checking.locator(".editor .word")).to_have_text(words)
    expect(checking.get_by_label("Text to check", exact=True)).to_have_attribute("lang", tag)
    if lang == "ja":
        checking.get_by_label("With readings (kana)").check()
        expect(checking.locator(".readings ruby").first).to_have_text("私(わたし)")
    if lang == "th":
        expect(checking.get_by_label("With readings")).to_have_count(0)


def test_languages_have_their_own_names_and_examples(page: Page) -> None:
    names = page.get_by_label("Language").locator("option").all_inner_texts()
    assert {name.partition(": ")[2] for name in names} >= {"中文（简体）", "中文（繁體）", "日本語", "ไทย"}
    choose(page, "ja")
    expect(page.get_by_role("group", name="Examples").get_by_role("button").first).to_have_text("地図を見つけた犬の話")


def test_what_cannot_be_used_is_told(checking: Page, faults: Faults) -> None:
    choose(checking, "zh")
    check(checking, "我们喜欢 cats😀和鲸鱼。")
    expect(checking.locator(".editor .is-not-allowed")).to_have_text(["cats", "😀", "鲸鱼"])
    faults.allow("400 (Bad Request)")
    checking.get_by_label("Names and other words that may come").fill("爸 爸")
    expect(checking.get_by_role("alert").filter(has_text="爸 爸")).to_be_visible()
