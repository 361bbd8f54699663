"""Our beams against those of transformers: the same texts, and the same scores.

    python -m benchmarks speed beams [--prompts 60] [--threads 1] [--dtype float32] [--json FILE]

Both run with the same prompts, list and number of threads, in turn: transformers'
``generate(do_sample=False, prefix_allowed_tokens_fn=our automaton)`` in this process, ours over vLLM with the
service's settings. Texts that are equal by different tokens are not merged, as transformers does not merge them.
"""

import argparse
import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.command import parser_of
from benchmarks.machine import facts_of_run
from benchmarks.quality.prompts import load_prompts
from benchmarks.speed.batch import SUBJECTS
from benchmarks.speed.found import Pair, Task, comparison, parting
from benchmarks.speed.searches import EngineBeams, TransformersBeams
from deployments.search.tokens import Constraint
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import load_speller
from vocab.automaton.trie_builder import build_words
from vocab.decoding.beams import BeamRules
from vocab.lists.wordlists import load_word_list
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import DEFAULT_OPTIONS

GROUPS: Final = ((4, 1.0, 1), (10, 1.0, 6), (4, 0.8, 6), (4, 1.2, 6))
"""Beams, length penalty, and which part of the prompts: 60 prompts at 4 beams, ten at each of the others."""


def main() -> None:
    arguments = _arguments()
    # The first for the engine's processes, which are to bind no thread to a core; the second for this one.
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    os.environ |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    import torch

    torch.set_num_threads(arguments.threads)
    speller, whole = load_speller(arguments.model), load_word_list("en", None)
    words = build_words(whole.up_to(arguments.words), speller, has_capitals=whole.has_capitals)
    frame = frame_for(words, None, DEFAULT_OPTIONS, FrameTokens.of(speller.facts))
    states = ListStates(words, frame, arguments.words)
    with tempfile.TemporaryDirectory() as folder:
        ArtefactFolder(Path(folder)).save(words)
        theirs = TransformersBeams(arguments.model, arguments.dtype, states)
        constraint = Constraint(GrammarReference(words.digest, DEFAULT_OPTIONS, arguments.words), states)
        keeps_work = not arguments.forgetful
        ours = EngineBeams(arguments.model, arguments.dtype, Path(folder), constraint, keeps_work=keeps_work)
        facts = facts_of_run()
        pairs = asyncio.run(_compare(arguments, ours, theirs))
    print(f"\n{facts}\n{arguments}\n", *comparison(pairs), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({**facts, "pairs": [pair.as_dict() for pair in pairs]}))


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=24, help="of each text")
    parser.add_argument("--prompts", type=int, default=60, help="at 4 beams; a sixth of them in each other group")
    parser.add_argument("--threads", type=int, default=1, help="of each of the two systems")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--forgetful", action="store_true", help="the engine keeps no work from step to step")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def prompts(number: int) -> list[str]:
    """The first of sixty: those of the quality benchmark, and then others."""
    more = [f"{verb} {subject}." for verb in ("Tell me about", "Write a letter to", "Explain") for subject in SUBJECTS]
    return [*load_prompts("en", 40), *more][:number]


async def _compare(arguments: argparse.Namespace, ours: EngineBeams, theirs: TransformersBeams) -> list[Pair]:
    pairs = []
    async with ours:
        for num_beams, length_penalty, part in GROUPS:
            rules = BeamRules(num_beams, length_penalty, merge_equal_texts=False)
            for prompt in prompts(-(-arguments.prompts // part)):
                task = Task(theirs.prompt_tokens(prompt), rules, arguments.tokens)
                [our_find] = await ours.search([task])
                their_find = theirs.search(task)
                texts, gap, ours_by_them = (theirs.text(our_find), theirs.text(their_find)), None, None
                if texts[0] != texts[1]:
                    ours_by_them = theirs.log_p(task, our_find.tokens)
                    beams = [theirs.log_p(task, beam) / len(beam) for beam in parting(our_find, their_find)]
                    gap = max(beams) - min(beams) if beams else None
                group = f"{num_beams} beams, length penalty {length_penalty}"
                pairs.append(Pair(group, prompt, our_find, their_find, texts, ours_by_them, gap))
    return pairs


if __name__ == "__main__":
    main()
