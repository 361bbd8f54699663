"""The lines of the batch benchmark, and the same through vLLM's own ``LLM.chat``.

python -m benchmarks.batch_offline MODEL NUM_LINES MAX_TOKENS ENGINE_AS_JSON OUT
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.replica.prompt import hint_line
from deployments.settings.limits import NO_REPEAT_NGRAM_SIZE
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.vllm_plugin import use_plugin

LANG, NUM_WORDS = "en", 1000
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
SUBJECTS = ("a dog", "the sea", "my house", "an old man", "the city", "a good day", "two friends", "the long road")
SAMPLING: dict[str, Any] = {"temperature": 0.3, "min_p": 0.1}
"""As the service sets them where a request is silent."""


@dataclass(frozen=True)
class Line:
    """One request."""

    question: str
    max_tokens: int
    seed: int

    def body(self) -> dict[str, Any]:
        return {
            "messages": [{"role": "user", "content": self.question}],
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "vocab": {"lang": LANG, "n_words": NUM_WORDS, "punctuation": "full", "end": "word"},
        }


def lines_of(num_lines: int, max_tokens: int) -> list[Line]:
    return [
        Line(f"Tell me story {number} about {SUBJECTS[number % len(SUBJECTS)]}.", max_tokens, number)
        for number in range(num_lines)
    ]


def main() -> None:
    model, num_lines, max_tokens, engine, out = sys.argv[1:]
    lines = lines_of(int(num_lines), int(max_tokens))
    with tempfile.TemporaryDirectory() as folder:
        use_plugin()
        os.environ[ARTEFACT_DIR_VARIABLE] = folder
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        words = build_words(load_word_list(LANG, None), load_speller(model))
        ArtefactFolder(Path(folder)).save(words)
        reference = GrammarReference(
            words.digest, ListOptions(punctuation="full"), NUM_WORDS, int(max_tokens), no_repeat=NO_REPEAT_NGRAM_SIZE
        ).to_ebnf()
        Path(out).write_text(json.dumps(_run(model, lines, json.loads(engine), reference)))


def _run(model: str, lines: list[Line], engine: dict[str, Any], reference: str) -> dict[str, float]:
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    llm = LLM(model=model, dtype="bfloat16", structured_outputs_config={"backend": "xgrammar"}, **engine)
    prompts: list[Any] = [
        [{"role": "system", "content": hint_line(LANG)}, {"role": "user", "content": line.question}] for line in lines
    ]
    sampling = [
        SamplingParams(
            seed=line.seed,
            max_tokens=line.max_tokens,
            structured_outputs=StructuredOutputsParams(grammar=reference),
            **SAMPLING,
        )
        for line in lines
    ]
    # The list is loaded, as the service's is when it says that it is ready.
    llm.chat(prompts[:1], sampling[:1], use_tqdm=False)
    started = time.perf_counter()
    answers = llm.chat(prompts, sampling, use_tqdm=False)
    seconds = time.perf_counter() - started
    tokens = sum(len(answer.outputs[0].token_ids) for answer in answers)
    return {"seconds": seconds, "tokens": tokens, "tokens_per_s": tokens / seconds, "answers": len(answers)}


if __name__ == "__main__":
    main()
