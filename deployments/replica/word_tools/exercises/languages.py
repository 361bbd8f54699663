"""What of an exercise is in the language of its list: the line above it, and examples that show the model its form.

A line is used where the list has all its words; each has them among the 1,000 most frequent. Small models follow
examples, where they would repeat an instruction. Where a language has none, the English ones are used: the model
answers in the language of the sentence, for the list leaves it no other.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vocab.answers import ExerciseKind

INSTRUCTIONS: Final[Mapping[str, Mapping[ExerciseKind, str]]] = {
    "en": {
        "questions": "Which answer is right?",
        "true_false": "Is it true? Write yes or no.",
        "gap_fill": "Which word is right?",
        "matching": "Which words go together?",
        "order": "What comes first?",
        "dictation": "Listen and write.",
    },
    "es": {
        "questions": "¿Qué dice el texto?",
        "true_false": "¿Es verdad? Di sí o no.",
        "gap_fill": "¿Qué palabra va aquí?",
        "matching": "¿Qué va con qué?",
        "order": "¿Qué va primero?",
        "dictation": "Escribir lo que dicen.",
    },
    "de": {
        "questions": "Was steht im Text?",
        "true_false": "Ist das richtig? Ja oder nein?",
        "gap_fill": "Welches Wort passt?",
        "matching": "Was gehört zusammen?",
        "order": "Was kommt zuerst?",
        "dictation": "Hören und schreiben.",
    },
    "fr": {
        "questions": "Que dit le texte ?",
        "true_false": "Est-ce vrai ? Oui ou non ?",
        "gap_fill": "Quel mot manque ?",
        "matching": "Qu'est-ce qui va ensemble ?",
        "order": "Que vient en premier ?",
        "dictation": "Qu'est-ce qu'on dit ?",
    },
    "it": {
        "questions": "Che cosa dice il testo?",
        "true_false": "È vero? Sì o no?",
        "gap_fill": "Quale parola va qui?",
        "matching": "Quali parole vanno insieme?",
        "order": "Che cosa viene prima?",
        "dictation": "Che cosa si dice?",
    },
    "pt": {
        "questions": "O que diz o texto?",
        "true_false": "É verdade? Sim ou não?",
        "gap_fill": "Que palavra falta?",
        "matching": "O que fica junto?",
        "order": "O que vem primeiro?",
        "dictation": "Ouvir e escrever.",
    },
    "zh": {
        "questions": "什么是对的？",
        "true_false": "这是真的吗？",
        "gap_fill": "这里是什么？",
        "matching": "什么和什么在一起？",
        "order": "第一个是什么？",
        "dictation": "听了写。",
    },
    "zh-Hant": {
        "questions": "什麼是對的？",
        "true_false": "這是真的嗎？",
        "gap_fill": "這裡是什麼？",
        "matching": "什麼和什麼在一起？",
        "order": "第一個是什麼？",
        "dictation": "聽了寫。",
    },
    "ja": {
        "questions": "どれが本当ですか。",
        "true_false": "本当ですか。",
        "gap_fill": "ここに入る言葉はどれですか。",
        "matching": "どれとどれが同じですか。",
        "order": "最初はどれですか。",
        "dictation": "聞いて書いてください。",
    },
    "th": {
        "questions": "ข้อไหนถูก",
        "true_false": "จริงหรือไม่",
        "gap_fill": "คำไหนถูก",
        "matching": "คำไหนอยู่ด้วยกัน",
        "order": "อะไรเกิดขึ้นก่อน",
        "dictation": "ฟังแล้วเขียน",
    },
}


class Examples(NamedTuple):
    """Questions as (sentence, its word that is the answer, question), glosses as (word, gloss)."""

    questions: Sequence[tuple[str, str, str]]
    glosses: Sequence[tuple[str, str]]


EXAMPLES: Final[Mapping[str, Examples]] = {
    "en": Examples(
        (
            ("The boy ate an apple in the garden.", "apple", "What did the boy eat in the garden?"),
            ("My sister lives in a small town.", "town", "Where does my sister live?"),
            ("The doctor was angry.", "doctor", "Who was angry?"),
        ),
        (
            ("apple", "a round fruit that is red or green"),
            ("run", "to move very fast on your legs"),
            ("doctor", "a person who helps people who are ill"),
        ),
    ),
    "es": Examples(
        (
            ("El niño comió una manzana en el jardín.", "manzana", "¿Qué comió el niño en el jardín?"),
            ("Mi hermana vive en un pueblo pequeño.", "pueblo", "¿Dónde vive mi hermana?"),
            ("El médico estaba enfadado.", "médico", "¿Quién estaba enfadado?"),
        ),
        (
            ("manzana", "una fruta redonda que es roja o verde"),
            ("correr", "ir muy rápido con las piernas"),
            ("médico", "una persona que ayuda a los enfermos"),
        ),
    ),
    "de": Examples(
        (
            ("Der Junge aß im Garten einen Apfel.", "Apfel", "Was aß der Junge im Garten?"),
            ("Meine Schwester wohnt in einer kleinen Stadt.", "Stadt", "Wo wohnt meine Schwester?"),
            ("Der Arzt war böse.", "Arzt", "Wer war böse?"),
        ),
        (
            ("Apfel", "eine runde Frucht die rot oder grün ist"),
            ("laufen", "sich mit den Beinen schnell bewegen"),
            ("Arzt", "ein Mensch der kranken Menschen hilft"),
        ),
    ),
    "fr": Examples(
        (
            (
                "Le garçon a mangé une pomme dans le jardin.",
                "pomme",
                "Qu'est-ce que le garçon a mangé ?",
            ),
            ("Ma sœur habite dans un petit village.", "village", "Où habite ma sœur ?"),
            ("Le médecin était fâché.", "médecin", "Qui était fâché ?"),
        ),
        (
            ("pomme", "un fruit rond qui est rouge ou vert"),
            ("courir", "aller très vite avec les jambes"),
            ("médecin", "une personne qui aide les malades"),
        ),
    ),
    "zh": Examples(
        (
            ("男孩在花园里吃了一个苹果。", "苹果", "男孩在花园里吃了什么？"),
            ("我姐姐住在一个小城市。", "城市", "我姐姐住在哪里？"),
            ("医生生气了。", "医生", "谁生气了？"),
        ),
        (("苹果", "一种红色或者绿色的水果"), ("跑", "用脚走得很快"), ("医生", "帮助病人的人")),
    ),
    "zh-Hant": Examples(
        (
            ("男孩在花園裡吃了一個蘋果。", "蘋果", "男孩在花園裡吃了什麼？"),
            ("我姐姐住在一個小城市。", "城市", "我姐姐住在哪裡？"),
            ("醫生生氣了。", "醫生", "誰生氣了？"),
        ),
        (("蘋果", "一種紅色或者綠色的水果"), ("跑", "用腳走得很快"), ("醫生", "幫助病人的人")),
    ),
    "ja": Examples(
        (
            ("男の子は庭でりんごを食べました。", "りんご", "男の子は庭で何を食べましたか？"),
            ("姉は小さな町に住んでいます。", "町", "姉はどこに住んでいますか？"),
            ("医者は怒っていました。", "医者", "誰が怒っていましたか？"),
        ),
        (("りんご", "赤くて丸い果物"), ("走る", "足でとても速く動く"), ("医者", "病気の人を助ける人")),
    ),
    "th": Examples(
        (
            ("เด็กชายกินแอปเปิลในสวน", "แอปเปิล", "เด็กชายกินอะไรในสวน?"),
            ("พี่สาวของฉันอยู่ในเมืองเล็ก", "เมือง", "พี่สาวของฉันอยู่ที่ไหน?"),
            ("หมอโกรธมาก", "หมอ", "ใครโกรธมาก?"),
        ),
        (("แอปเปิล", "ผลไม้กลมสีแดงหรือสีเขียว"), ("วิ่ง", "ไปด้วยเท้าเร็วมาก"), ("หมอ", "คนที่ช่วยคนป่วย")),
    ),
}

FALLBACK: Final = "en"
