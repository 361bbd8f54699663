"""Lists of languages written without spaces: how they are named, and what is a word of them."""

import re
from functools import lru_cache
from pathlib import Path

import pytest

from vocab.errors import UnknownLanguageError, UnsupportedScriptError
from vocab.lists.credits import attribution
from vocab.lists.wordlists import (
    check_known,
    inline_word_list,
    known_languages,
    load_word_list,
    reference_dictionary,
    unspaced_language,
)

UNSPACED = ["ja", "th", "zh", "zh-Hant"]

SCRIPT = {
    "ja": r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]+",
    "th": r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e]+",
    "zh": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
    "zh-Hant": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
}

SAMPLES = {
    "zh": """!is !life !on !x !一个月 !一本 一直 丁 !万元 三国 上学 上海 不会 不变 业务 严厉 中华 主任 之上 习 人格
        人民币 人生 从不 从未 件 任期 伊拉克 伟大 作出 使命 倍 做到 共同 其余 内容 决赛 列 剥夺 加州 动 南方
        压力 原创 发 发动 发言 变得 句 只好 各 合 后 向前 周末 团 埃及 基地 境 声援 处置 天下 夫妻 学员 家伙
        对应 封面 小 !小女孩 小学 就算 屠杀 岛屿 工业 年初 庆祝 延续 开 开会 开玩笑 式 弹 当事人 当前 彼此 心理
        心里 情况 意味着 所在地 手机 扮演 把握 抓住 报告 抵抗 拜 拿出 拿到 换 推广 提升 提名 摄影师 放弃 效果
        教师 新 无辜 有权 有用 !来看 板 校长 格式 案例 步 毁 气氛 水平 没有 游行 演 炸弹 爱尔兰 物资 猪 现象
        的话 看到 真的 眼 知道 破 神经 种族 称为 移动 税收 竞选 笑 答应 约定 练习 经 给 网友 罗马 美洲 美食 考验
        股份 色 苦 英语 行使 西安 观点 规律 规模 解决 设施 访问 证 该 课程 谎言 资本主义 走出 走向 足以 路上
        身边 较为 辆 运动员 !这一 这边 进攻 进程 退出 逐渐 通用 通讯 逾 道歉 避免 邮件 都市 问题 阿 陈 难民 雨
        非 面前 音 领导人 香港 高度""",
    "zh-Hant": """一旦 一時 一部分 不僅 中期 丹麥 主要 乃 事兒 人為 仔細 佈局 位 佛 個人 傳達 優勢 優化 優秀 允許 兇手
        內容 公園 公正 具有 出門 前來 剛才 功能 加大 助理 十 即使 古代 吃飯 各地 同情 名字 否定 吸收 嗯 回憶 圓
        基礎 壓力 夢 大膽 大隊 天地 好處 字 官員 寫 導致 山西 川 工 工廠 已經 師 幣 幫助 廈門 影響力 微博 性命
        惡 感情 成為 房屋 手續 拋棄 拍 招聘 拿來 指標 按照 接待 提示 插 搜索 操 收益 新西蘭 族 既然 晚上 暨 月份
        有效 村 果然 根據 極為 樂觀 樂隊 機構 歐 永久 決定 沙漠 法庭 流行 流量 消除 深圳 減輕 澳洲 激勵 火箭
        為何 然而 物資 現任 球員 理想 生 甲 異 當日 瘋 瘋狂 發 發布 發放 百科 盡力 盤 相 相反 着 睡 研發 票 私人
        空間 第二次 答應 管道 簡介 籌備 給 綁 經過 線 總會 總統 總體 職務 聽說 股市 自稱 色 花 若 若干 菲律賓
        藍色 藝術家 藥物 行為 衣服 補貼 裡面 西南 設備 談論 講 貨物 購物 超市 趕快 跟著 路人 車站 輛 辦理 農村
        近日 近期 通常 過去 過度 達 選擇 選民 遼寧 還是 那麼 郡 限制 隨着 難過 電視台 青春 領導人 飛機 騰訊 高峰
        魅力""",
    "ja": """!as !ch !net あら いくら うまく ええ おまえ おる かつて すごく ぜひ そして その それなり だけど !だし
        !てん とっても !ど どうぞ なんか に はじめて ば ふう べき ます また み やっぱ やつ やめ ゆく よる
        アルバイト カー カード ガチ クロス コピー コラボ サーバー !シ ショック ジャパン スタンプ スマホ ソウル
        トロ トン バトル パートナー ブーム プレミアム ボランティア ボード ミラー メニュー メモ メール ランキング
        !リ ルール 上手く 上記 下着 与え 今年 今週 代理 休日 伴う 何で 例外 倍 優勝 入 共 冷蔵庫 出力 出演 刃 剤
        割れ 千 半年 単 印 収入 収録 各地 周囲 呼ぶ 喜ぶ 困っ 基地 増え 売る 変 宗教 寄付 寺 専門 尊敬 少ない 尚
        展 帰っ 弟 強制 当て 形 後 後で 復興 思える 性格 恋 恵 !悠 我が 戦い 手法 抑え 揚げ 支払い 数字 文句
        方々 明日 時点 普及 来い 様子 殺し 毒 決して 決まっ 決める 深 狭い 生存 畑 異常 目指す 相互 相手 矢 知り
        砲 秋田 稼い 空港 結構 編集 繋がり 群 考え方 職人 致し 良く 華 行わ 製品 西 触っ 言葉 計算 設置 話
        詳しい 読める 論 警察 警戒 負担 貼っ 資本 起こる 身 輸入 送っ 通報 避難 郎 都 里 野菜 長官 開発 関わら
        闇 電池 静岡 面 食い 食っ 骨 黒人""",
    "th": """กระทะ กริยา กลางคืน กล่าวอ้าง กองกำลัง การ การเมือง กิจกรรม กิเลส กีดกัน ก็ตาม ขบวน ขวาง ขอน ขัง ขัดข้อง
        ขาย ข้างใน คนตาย คมนาคม ครัวเรือน ควบ ความถี่ ความสามารถ คุกคาม คุณย่า ค้าขาย จม จริง จัก จักรวาล จู่
        จ้างงาน ฉับพลัน ฉาก ชัก ชายแดน ชุด ซาก ซ้าย ฐาน ดิ้นรน ด้วย ตรง ตรงกลาง ตรงข้าม ตรวจสอบ ตลอดจน ตัน
        ตายตัว ต่อต้าน ถัง ถูก ถ่าน ทัพ ทำท่า ทำมาหากิน ทำเนียบ ทีละ ท่าเรือ นาน นายทุน นำทาง นิคมอุตสาหกรรม นิช
        นิติบุคคล นิพนธ์ นิยม น้อยใจ น้ำแข็ง บทความ บรรยากาศ บำรุง ปม ประกอบ ประชด ประชุม ประนอม ประหยัด ปล้น
        ปัด ปีใหม่ ปูน ผู้กำกับ ผู้จัดการ ผู้ต้องหา ผู้ประกอบการ ฝั่ง พนักงานสอบสวน พระราชกฤษฎีกา พระองค์ พระเอก
        พริก พาหนะ พิษ ภัย ภาษี ภูเขา มด มอญ มั่ง มาตรา มุสลิม ม้า ยั่งยืน ยิว ยิ้มแย้ม ยีราฟ ยืน ยื่น รณรงค์ รบ
        รองรับ รัช รับแขก รากฐาน ราบ ราย รึ รุม รูป รูปธรรม ร่ำ ร้องขอ ฤดูกาล ลุง ล้ม วัยรุ่น วัส วาสนา วิทยุ
        วิเศษ ว่าที่ ศรัทธา ศิลป์ สนับสนุน สมัครใจ สมัย สรรพ ส่วนผสม หน่อย หยก หยิบยก หวัด ห่วง อนุโลม อวกาศ
        อักเสบ อาวุโส อิรัก อุณหภูมิ อ่อนโยน เกร็ง เกลียว เกษตรและสหกรณ์ เก๋ เคราะห์ เคี้ยว เงินเดือน เจ้าสาว
        เชี่ยวชาญ เดินหน้า เดือดร้อน เด็ก เด็ดขาด เต็มใจ เต้านม เทพเจ้า เท่านี้ เท่าไร เนื่องจาก เนื้อที่
        เนื้อเยื่อ เบา เบิก เปลือก เพียร เรียงราย เรียบเรียง เลือน เล็ก เสมือน เสริมสร้าง เสา เหนียว เหยียบ
        แต่ว่า แถว แน่ แปรง แฟรงค์ แม่น้ำ แวดล้อม โค่น โดดเด่น โมง ใช่ ให้ ไซ ไร่""",
}  # fmt: skip
"""200 entries of each language, drawn at random from wordfreq's first 5,000 of Chinese and Japanese and from the list's
own of the others, and judged from knowledge of the language. "!a" is no word of the dictionary: another script, a
numeral with its measure word, or words beside each other."""


@lru_cache(maxsize=8)
def words_of(lang: str, *, safe: bool = True) -> tuple[str, ...]:
    return load_word_list(lang, None, safe=safe).words


class TestNames:
    @pytest.mark.parametrize(
        ("name", "language"),
        [
            ("zh", "zh"), ("zh-CN", "zh"), ("zh-Hans", "zh"), ("zh-SG", "zh"), ("zh-Hans-HK", "zh"), ("zh_hsk1", "zh"),
            ("zh-Hant", "zh-Hant"), ("zh-TW", "zh-Hant"), ("zh-HK", "zh-Hant"), ("zh-MO", "zh-Hant"),
            ("zh-Hant-TW", "zh-Hant"), ("zh-Hant_school", "zh-Hant"), ("ja", "ja"), ("ja-JP", "ja"), ("ja_n5", "ja"),
            ("th", "th"), ("th-TH", "th"), ("th_school", "th"), ("en", None), ("ko", None), ("yue", None),
            ("zhx", None), ("my-words", None), ("school_zh", None),
        ],
    )  # fmt: skip
    def test_a_tag_or_a_files_name_says_which_language_it_is(self, name: str, language: str | None) -> None:
        assert unspaced_language(name) == language

    @pytest.mark.parametrize(("tag", "lang"), [("zh-CN", "zh"), ("zh-TW", "zh-Hant"), ("ja-JP", "ja"), ("th-TH", "th")])
    def test_a_tag_of_a_region_means_the_languages_list(self, tmp_path: Path, tag: str, lang: str) -> None:
        word_list = load_word_list(tag, None)
        assert (word_list.lang, word_list.source) == (lang, "cleaned")
        assert word_list.digest == load_word_list(lang, None).digest
        check_known(tag, tmp_path)

    def test_a_file_goes_before_the_list_of_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "zh-TW.txt").write_text("一\n二\n", encoding="utf-8")
        (tmp_path / "ja.txt").write_text("犬\n", encoding="utf-8")
        assert load_word_list("zh-TW", tmp_path).words == ("一", "二")
        assert load_word_list("ja-JP", tmp_path).words == ("犬",)
        assert load_word_list("zh-HK", tmp_path).source == "cleaned"
        assert len(reference_dictionary("ja")) > 90_000

    def test_they_are_known_languages(self) -> None:
        assert set(UNSPACED) <= set(known_languages(None))

    @pytest.mark.parametrize("name", ["yue", "wuu", "lo", "km", "my", "yue-HK", "yue-Hant-HK"])
    def test_one_without_a_dictionary_is_refused(self, tmp_path: Path, name: str) -> None:
        (tmp_path / f"{name}.txt").write_text("word")
        with pytest.raises(UnsupportedScriptError, match=r"no dictionary .* zh, zh-Hant, ja or th"):
            load_word_list(name, tmp_path)

    @pytest.mark.parametrize("lang", ["th", "zh-Hant"])
    def test_wordfreq_has_not_all_of_them(self, lang: str) -> None:
        with pytest.raises(UnknownLanguageError, match="wordfreq has no list"):
            load_word_list(lang, None, source="wordfreq")

    def test_words_of_ones_own_may_be_in_them(self) -> None:
        assert inline_word_list(["T恤", "你好"], "zh-TW").words == ("T恤", "你好")

    def test_a_spaced_language_has_no_reference_dictionary(self) -> None:
        with pytest.raises(UnknownLanguageError, match="no reference dictionary of 'en'"):
            reference_dictionary("en")


@pytest.mark.parametrize("lang", UNSPACED)
class TestWords:
    def test_the_words_of_a_sample_are_those_of_the_language(self, lang: str) -> None:
        sample = SAMPLES[lang].split()
        assert len(sample) == 200
        listed = set(reference_dictionary(lang))
        wrong = [entry for entry in sample if (entry[0] == "!") == (entry.lstrip("!") in listed)]
        assert wrong == []

    def test_they_are_in_one_script_and_each_is_there_once(self, lang: str) -> None:
        words = reference_dictionary(lang)
        assert len(set(words)) == len(words)
        assert [word for word in words if not re.fullmatch(SCRIPT[lang], word)] == []

    def test_the_dictionary_has_unsafe_words_and_the_list_has_not(self, lang: str) -> None:
        dictionary = reference_dictionary(lang + "_school")
        words = words_of(lang, safe=False)
        assert dictionary[: len(words)] == words
        assert set(words_of(lang)) < set(dictionary)


def test_simplified_words_are_no_traditional_ones_in_parts() -> None:
    assert {"最后", "最後", "后"} <= set(reference_dictionary("zh-Hant"))
    assert "最后" not in words_of("zh-Hant")


@pytest.mark.parametrize(
    ("lang", "size", "first", "listed", "not_listed"),
    [
        ("zh", 130_000, "的 是 在 了 我", "学习 电脑 图书馆 什么 一个 葡萄 的 我 你", "學習 這是 三个 毛泽东 约翰"),
        ("zh-Hant", 135_000, "的 是 在 了 我", "學習 電腦 圖書館 後 后 裡 裏 台灣 臺灣 頭髮 麵", "学习 万 听 头 约 爱"),
        ("ja", 99_000, "の に て は", "食べる 食べ た ます 図書館 東京 という し", "てい ー 々 ぇ 次郎 健"),
        ("th", 35_000, "ที่ การ เป็น", "กิน ข้าว โรงเรียน ประเทศ ไทย ๆ ณ", "ก ข คนที สุ เย็ด"),
    ],
)  # fmt: skip
def test_everyday_words_are_listed_and_fragments_are_not(
    lang: str, size: int, first: str, listed: str, not_listed: str
) -> None:
    words = words_of(lang)
    assert size < len(words) < 1.1 * size
    assert set(first.split()) <= set(words[:20])
    assert [word for word in listed.split() if word not in words] == []
    assert [word for word in not_listed.split() if word in words] == []


@pytest.mark.parametrize(
    ("lang", "credited"),
    [("zh", "CC-CEDICT"), ("zh-Hant", "OpenCC"), ("ja", "JMdict"), ("th", "PyThaiNLP"), ("en", "wordfreq")],
)
def test_a_lists_sources_are_named(lang: str, credited: str) -> None:
    lines = attribution("cleaned", lang, is_by_lemma=False)
    assert credited in " ".join(lines)
    assert "".join(lines).isascii()
    assert max(map(len, lines)) <= 120
    assert ("wordfreq" in " ".join(lines)) == (lang != "th")
    assert attribution("file", lang, is_by_lemma=False) == ()
