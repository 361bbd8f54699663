"""How well ten particles read beside what the service does by itself: genlm-control's SMC over a word list.

    pip install --target FOLDER genlm-control==0.4.1
    python -m benchmarks particles --genlm FOLDER [--words 1000] [--prompts 20] [--tokens 60] [--particles 10]
        [--temperature 1.0] [--samplers direct,awrs]

Each prompt's particles are drawn from the model times the list (``WordListPotential``) by the local distribution
(``direct``) or by AWRS, in float32 and without a hint. ``best`` is the text with the largest weight, ``posterior`` the
mean of all texts by their weights; bits per character are of the free model, as in ``quality``. Tokens are those that
were drawn, by those of the text. ``python -m benchmarks quality --prompts 20 --words 1000`` has the service's methods.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
SAMPLERS: Final = ("direct", "awrs")


def main() -> None:
    arguments = _arguments()
    alias = ROOT / "tests/wordbound/lm/genlm_alias"
    if str(alias) in sys.path:
        asyncio.run(_measure(arguments))
        return
    # Both folders stand before what is installed, from the start.
    paths = os.pathsep.join([str(arguments.genlm), str(alias), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.particles", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--genlm", type=Path, required=True, help="the folder with genlm-control")
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--particles", type=int, default=10)
    parser.add_argument("--temperature", type=float, default=1.0, help="of the model that proposes and weighs")
    parser.add_argument("--samplers", type=lambda text: text.split(","), default=list(SAMPLERS))
    return parser.parse_args()


async def _measure(arguments: argparse.Namespace) -> None:
    import genlm

    # Its packages share the name with the stand-in for genlm-backend, which comes first.
    genlm.__path__.append(str(arguments.genlm / "genlm"))
    import numpy as np
    import torch
    from genlm.backend.llm import load_model_by_name
    from genlm.control import AWRS, PromptedLLM, direct_token_sampler

    from benchmarks.prose.free_model import FreeModel
    from benchmarks.prose.prompts import load_prompts
    from wordbound.lm import WordList
    from wordbound.lm.bridges.genlm_control import WordListPotential

    free = FreeModel(str(arguments.model))
    model = load_model_by_name(str(arguments.model), backend="hf")
    llm = PromptedLLM(model, temperature=arguments.temperature)
    words = WordListPotential(WordList("en", arguments.words, model), llm.vocab, max_tokens=arguments.tokens)
    for name in arguments.samplers:
        best, posterior, ratios, seconds = [], [], [], []
        for number, prompt in enumerate(load_prompts("en", arguments.prompts)):
            random.seed(number)
            np.random.seed(number)
            torch.manual_seed(number)
            llm.prompt_ids = free.prompt_tokens(prompt)
            sampler: Any = AWRS(llm, words) if name == "awrs" else direct_token_sampler(llm * words)
            started = time.monotonic()
            found = await sampler.smc(n_particles=arguments.particles, ess_threshold=0.5, max_tokens=arguments.tokens)
            seconds.append(time.monotonic() - started)
            weights = {str(text): float(share) for text, share in found.decoded_posterior.items()}
            if not weights:
                print(f"{name} {number}: no particle is left", flush=True)
                continue
            bits = {text: free.bits(prompt, text, is_ended=True) / max(len(text), 1) for text in weights}
            chosen = max(weights, key=lambda text: weights[text])
            best.append(bits[chosen])
            posterior.append(sum(weights[text] * bits[text] for text in weights))
            drawn = [len(context) for context in found.contexts]
            ratios.append(sum(drawn) / max(len(free.tokenizer(chosen)["input_ids"]), 1))
            print(f"{name} {number}: {bits[chosen]:.2f} of {len(weights)} texts: {chosen!r}", flush=True)
        means = [statistics.fmean(values) for values in (best, posterior, ratios, seconds)]
        print(
            f"{name}: best {means[0]:.3f}, posterior {means[1]:.3f} bits/char; {means[2]:.1f} tokens a token; "
            f"{means[3]:.1f} s a prompt; {len(best)} of {arguments.prompts} prompts with a text",
            flush=True,
        )


if __name__ == "__main__":
    main()
