"""A model's chat template: what it makes of a client's messages, and the line added to them: the hint.

The hint asks for simple, common words, in the language of the list. A model that means to use simple words has less of
its wishes masked. An adapter is told the size of the list too, as it was in training (``wordbound train``); a model
without one writes worse for it. The line never holds words of the list: a list is long, and what the model makes of
one it was told is not what the mask allows. It holds those few that have to occur.

A conversation that the service may not read whole is shortened: its oldest turns go, and the answer says so. A turn
begins with a message of the user and holds what follows it, calls of tools and their results included, so that what is
left is a conversation that a chat template takes. System messages and the last turn always stay.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from jinja2 import TemplateError, defaults, meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from deployments.contract import ChatBody, Part
from deployments.errors import EngineError, printable
from deployments.replica.engine import configuration, engine
from deployments.replica.prompts.plain_text import PlainText
from deployments.settings.service import Settings
from vocab.lists.wordlists import language_of

Messages = list[dict[str, Any]]

ENGLISH: Final = "Use simple, common words and write short, complete sentences."

SIMPLE_WORDS_HINTS: Final[dict[str, str]] = {
    "af": "Gebruik eenvoudige, algemene woorde en skryf kort, volledige sinne.",
    "ar": "استخدم كلمات بسيطة وشائعة، واكتب جملًا قصيرة وكاملة.",
    "be": "Ужывай простыя, распаўсюджаныя словы і пішы кароткія закончаныя сказы.",
    "bg": "Използвай прости, често срещани думи и пиши кратки, пълни изречения.",
    "bn": "সহজ ও প্রচলিত শব্দ ব্যবহার করুন এবং ছোট, সম্পূর্ণ বাক্য লিখুন।",
    "bs": "Koristi jednostavne, uobičajene riječi i piši kratke, potpune rečenice.",
    "ca": "Fes servir paraules senzilles i habituals, i escriu frases curtes i completes.",
    "cs": "Používej jednoduchá, běžná slova a piš krátké, úplné věty.",
    "da": "Brug enkle, almindelige ord, og skriv korte, hele sætninger.",
    "de": "Verwende einfache, gebräuchliche Wörter und schreibe kurze, vollständige Sätze.",
    "el": "Χρησιμοποίησε απλές, συνηθισμένες λέξεις και γράψε σύντομες, ολοκληρωμένες προτάσεις.",
    "en": ENGLISH,
    "eo": "Uzu simplajn, oftajn vortojn kaj skribu mallongajn, kompletajn frazojn.",
    "es": "Usa palabras sencillas y comunes, y escribe frases cortas y completas.",
    "et": "Kasuta lihtsaid, tavalisi sõnu ja kirjuta lühikesi täislauseid.",
    "eu": "Erabili hitz sinple eta arruntak, eta idatzi esaldi labur eta osoak.",
    "fa": "از واژه‌های ساده و رایج استفاده کن و جمله‌های کوتاه و کامل بنویس.",
    "fi": "Käytä yksinkertaisia, tavallisia sanoja ja kirjoita lyhyitä, kokonaisia lauseita.",
    "fil": "Gumamit ng mga simple at karaniwang salita, at sumulat ng maiikli at buong pangungusap.",
    "fr": "Utilise des mots simples et courants, et écris des phrases courtes et complètes.",
    "gl": "Usa palabras sinxelas e comúns, e escribe frases curtas e completas.",
    "he": "השתמש במילים פשוטות ונפוצות וכתוב משפטים קצרים ושלמים.",
    "hi": "सरल और आम शब्दों का प्रयोग करें और छोटे, पूरे वाक्य लिखें।",
    "hr": "Koristi jednostavne, uobičajene riječi i piši kratke, potpune rečenice.",
    "hu": "Használj egyszerű, gyakori szavakat, és írj rövid, teljes mondatokat.",
    "id": "Gunakan kata-kata yang sederhana dan umum, dan tulislah kalimat yang pendek dan lengkap.",
    "is": "Notaðu einföld, algeng orð og skrifaðu stuttar, heilar setningar.",
    "it": "Usa parole semplici e comuni e scrivi frasi brevi e complete.",
    "ja": "やさしい普通の言葉を使い、短くて完全な文で書いてください。",
    "ko": "쉽고 흔한 단어를 쓰고, 짧고 완전한 문장으로 쓰세요.",
    "la": "Utere verbis simplicibus et usitatis, et scribe sententias breves et plenas.",
    "lt": "Vartok paprastus, įprastus žodžius ir rašyk trumpus, užbaigtus sakinius.",
    "lv": "Izmanto vienkāršus, ikdienišķus vārdus un raksti īsus, pilnus teikumus.",
    "mk": "Користи едноставни, вообичаени зборови и пишувај кратки, целосни реченици.",
    "ms": "Gunakan perkataan yang mudah dan biasa, dan tulis ayat yang pendek dan lengkap.",
    "nb": "Bruk enkle, vanlige ord og skriv korte, hele setninger.",
    "nl": "Gebruik eenvoudige, gangbare woorden en schrijf korte, volledige zinnen.",
    "nn": "Bruk enkle, vanlege ord og skriv korte, heile setningar.",
    "pl": "Używaj prostych, powszechnych słów i pisz krótkie, pełne zdania.",
    "pt": "Use palavras simples e comuns e escreva frases curtas e completas.",
    "ro": "Folosește cuvinte simple și obișnuite și scrie propoziții scurte și complete.",
    "ru": "Используй простые, распространённые слова и пиши короткие законченные предложения.",
    "sh": "Koristi jednostavne, uobičajene riječi i piši kratke, potpune rečenice.",
    "sk": "Používaj jednoduché, bežné slová a píš krátke, úplné vety.",
    "sl": "Uporabljaj preproste, običajne besede in piši kratke, popolne stavke.",
    "sq": "Përdor fjalë të thjeshta e të zakonshme dhe shkruaj fjali të shkurtra e të plota.",
    "sv": "Använd enkla, vanliga ord och skriv korta, fullständiga meningar.",
    "sw": "Tumia maneno rahisi na ya kawaida, na andika sentensi fupi na kamili.",
    "ta": "எளிய, பொதுவான சொற்களைப் பயன்படுத்தி, சிறிய, முழுமையான வாக்கியங்களை எழுதுங்கள்.",
    "th": "ใช้คำที่ง่ายและพบบ่อย และเขียนเป็นประโยคสั้น ๆ ที่สมบูรณ์",
    "tr": "Basit, yaygın kelimeler kullan ve kısa, tam cümleler yaz.",
    "uk": "Використовуй прості, поширені слова й пиши короткі завершені речення.",
    "ur": "آسان اور عام الفاظ استعمال کریں اور چھوٹے، مکمل جملے لکھیں۔",
    "vi": "Hãy dùng những từ đơn giản, thông dụng và viết câu ngắn, trọn vẹn.",
    "zh": "请使用简单常见的词语，写简短完整的句子。",
    "zh-Hant": "請使用簡單常見的詞語，寫簡短完整的句子。",
}
"""By language. Serbian has none: its list may be in either script, and a line in the other would mislead."""

_ALIASES: Final = {"in": "id", "iw": "he", "no": "nb", "tl": "fil"}

_PROBE: Final = "Probe"


MUST_USE_HINTS: Final = {
    "de": "Verwende auch diese Wörter:",
    "en": "Use these words too:",
    "es": "Usa también estas palabras:",
    "fr": "Utilise aussi ces mots :",
    "it": "Usa anche queste parole:",
    "nl": "Gebruik ook deze woorden:",
    "pl": "Użyj też tych słów:",
    "pt": "Use também estas palavras:",
    "ru": "Используй также эти слова:",
    "tr": "Şu kelimeleri de kullan:",
    "ja": "次の言葉も使ってください：",
    "th": "ใช้คำเหล่านี้ด้วย:",
    "zh": "也请使用这些词语：",
    "zh-Hant": "也請使用這些詞語：",
}
"""By language, what stands before the words that have to occur; English elsewhere."""


def hint_line(lang: str | None, must_use: Sequence[str] = (), *, n_words: int | None = None) -> str:
    """Return the hint: a line that asks for simple words in a list's language, and for required words.

    It has the list's size where ``n_words`` is given.

    It is English where the list has no language or no line. The size is written as in the names of levels.
    """
    language = language_of(lang or "en")
    language = _ALIASES.get(language, language)
    line = SIMPLE_WORDS_HINTS.get(language, ENGLISH)
    if n_words is not None:
        line += f" (top-{n_words})"
    if must_use:
        line += f" {MUST_USE_HINTS.get(language, MUST_USE_HINTS['en'])} {', '.join(must_use)}."
    return line


def takes_system_messages(tokenizer: Any, chat_template: str | None) -> bool:
    """Return whether a chat template shows the model a system message: some raise an error (Gemma 2), some drop it.

    ``chat_template`` replaces the tokenizer's own; None for that.
    """
    messages = [{"role": "system", "content": _PROBE}, {"role": "user", "content": "Hello"}]
    try:
        return _PROBE in tokenizer.apply_chat_template(messages, chat_template=chat_template, tokenize=False)
    except Exception:
        # Templates are programs of strangers and raise whatever they like; the request itself will show what is wrong.
        return False


def with_line(messages: Messages, line: str, *, takes_system: bool) -> Messages:
    """Return the messages with the line at the end of a leading system message, or in one of its own.

    Where the template takes none, and the client sent none, it stands before the user's first text.
    """
    first = messages[0]
    if first["role"] in ("system", "developer"):
        return [{**first, "content": _join(first["content"], line)}, *messages[1:]]
    if takes_system:
        return [{"role": "system", "content": line}, *messages]
    for index, message in enumerate(messages):
        if message["role"] == "user":
            hinted = {**message, "content": _join(line, message["content"], between="\n\n")}
            return [*messages[:index], hinted, *messages[index + 1 :]]
    return messages


def _join(first: Any, second: Any, between: str = "\n") -> str:
    return between.join(text for text in map(text_of, (first, second)) if text)


def text_of(content: Any) -> str:
    """Return the text of a message's content, its parts as lines."""
    return "\n".join(part["text"] for part in content) if isinstance(content, list) else content or ""


logger = logging.getLogger("ray.serve")

_STANDARD: Final = frozenset(
    {
        *("add_generation_prompt", "continue_final_message", "documents", "messages", "tools"),
        *("chat_template", "raise_exception", "reasoning_effort", "strftime_now", "tokenize"),
        *defaults.DEFAULT_NAMESPACE,
    }
)
"""Given by transformers, vLLM or Jinja, or by a field of its own. Special tokens come on top, by their names."""

_GENERATION_TAG: Final = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A tag that only transformers knows."""


def template_switches(tokenizer: Any, chat_template: str | None) -> frozenset[str]:
    """Return the variables of a chat template that clients may set, such as ``enable_thinking``.

    ``chat_template`` replaces the tokenizer's own; None for that.
    """
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        text = tokenizer.get_chat_template(chat_template)
        read = meta.find_undeclared_variables(environment.parse(_GENERATION_TAG.sub("", text)))
    except (ValueError, TemplateError) as error:
        logger.warning("the switches of the chat template are not known: %s", error)
        return frozenset()
    return frozenset(read) - _STANDARD - frozenset(tokenizer.SPECIAL_TOKENS_ATTRIBUTES)


_PROMPT_FIELDS: Final = frozenset({"messages", "tools", "chat_template_kwargs"})
"""Their strings may become part of the prompt."""


@dataclass(frozen=True)
class Prompts:
    """Prepares a client's messages for the model's tokenizer and chat template.

    ``switches`` are the names that ``chat_template_kwargs`` may have.
    """

    tokenizer: Any
    plain: PlainText
    has_chat_template: bool
    takes_system: bool
    switches: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tokenizer: Any, settings: Settings) -> Self:
        """Find out what the model's chat template takes, by trying it; takes some milliseconds."""
        template = configuration.chat_template(settings)
        return cls(
            tokenizer,
            PlainText(tokenizer),
            bool(tokenizer.chat_template or settings.engine_kwargs.get("chat_template")),
            takes_system_messages(tokenizer, template),
            template_switches(tokenizer, template),
        )

    def check_switches(self, body: ChatBody) -> None:
        """Refuse variables that the template does not read: vLLM would drop them, and some are not the client's.

        Raises:
            EngineError: With status 400; it names those that it reads.
        """
        for name in body.get("chat_template_kwargs", {}):
            if name not in self.switches:
                known = ", ".join(sorted(self.switches)) or "none"
                raise EngineError(
                    400,
                    f"'chat_template_kwargs' has no '{printable(name)}': the switches of this model's chat template "
                    f"are {known}.",
                    param="chat_template_kwargs",
                )

    def with_hint(self, messages: Messages, line: str) -> Messages:
        """Return a chat's body with the hint line in its messages."""
        return with_line(messages, line, takes_system=self.takes_system)

    def neutralize_special_tokens(self, body: ChatBody) -> ChatBody:
        """Return the body with special tokens in its texts made ordinary text."""
        return {key: self.plain.of_json(value) if key in _PROMPT_FIELDS else value for key, value in body.items()}


OVERFLOW_FIELD = "input_overflow"
"""Of an answer to such a conversation: of a whole one, and of the first chunk of a stream."""


async def drop_oldest_turns(messages: Messages, fits: Callable[[Messages], Awaitable[bool]]) -> Messages | None:
    """Drop as few of the oldest turns as make a conversation fit; None where even the last turn does not.

    ``fits`` is asked about eleven times for a thousand turns.
    """
    turns = _turns(messages)
    fewest, most = 1, len(turns) - 1
    if most < 1 or not await fits(_without(messages, turns[:most])):
        return None
    while fewest < most:
        middle = (fewest + most) // 2
        if await fits(_without(messages, turns[:middle])):
            most = middle
        else:
            fewest = middle + 1
    return _without(messages, turns[:most])


def annotate(item: Part, num_dropped: int) -> Part:
    """Add to the first item of an answer how many messages were dropped."""
    block = {OVERFLOW_FIELD: {"dropped_messages": num_dropped}}
    if isinstance(item, dict):
        return {**item, **block}
    chunk = engine.parse_event(item)
    return item if chunk is None else engine.write_event({**chunk, **block})


def _turns(messages: Messages) -> list[list[int]]:
    """Group the numbers of the messages by turn; those of system messages are in none."""
    turns: list[list[int]] = []
    for number, message in enumerate(messages):
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(number)
    return turns


def _without(messages: Messages, turns: list[list[int]]) -> Messages:
    dropped = {number for turn in turns for number in turn}
    return [message for number, message in enumerate(messages) if number not in dropped]
