"""A tokenizer without a fast implementation: that of the GPT-SW3 models, over pieces made here."""

import json
from io import BytesIO
from pathlib import Path

import sentencepiece

from vocab.lists.wordlists import load_word_list

NUM_PIECES = 1000


def write_slow_tokenizer(folder: Path) -> Path:
    """Writes the files of the tokenizer into a folder; its special tokens are those of SmolLM2."""
    words, model = load_word_list("en", None).words[:3000], BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]),
        model_writer=model,
        model_type="bpe",
        vocab_size=NUM_PIECES,
        byte_fallback=True,
        bos_piece="<|im_start|>",
        eos_piece="<|im_end|>",
        num_threads=1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(model.getvalue())
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<unk>", "pad_token": "<unk>"}
    config = {"tokenizer_class": "GPTSw3Tokenizer", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
