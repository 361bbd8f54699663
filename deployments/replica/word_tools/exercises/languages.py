"""What of an exercise is in the language of its list: the line above it, and examples that show the model its form.

A line is used where the list has all its words; each has them among the 1,000 most frequent. Small models follow
examples, where they would repeat an instruction. Where a language has none, the English ones are used: the model
answers in the language of the sentence, for the list leaves it no other.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from deployments.protocol.word_tools import ExerciseKind

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
}

FALLBACK: Final = "en"
