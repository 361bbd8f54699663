"""A program for genlm-control, on our model: ``control_program MODEL GENLM_CONTROL``.

Its last line is JSON: what ten particles wrote under a regular language, and under a grammar.
"""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.wordbound.lm import genlm_alias

# Its packages share the name with the stand-in for genlm-backend, which comes first.
genlm_alias.genlm.__path__.append(str(Path(sys.argv[2]) / "genlm"))

from genlm.backend.llm import load_model_by_name  # noqa: E402
from genlm.control import AWRS, BoolCFG, BoolFSA, PromptedLLM, direct_token_sampler  # noqa: E402

from wordbound.lm import WordList  # noqa: E402
from wordbound.lm.bridges import genlm_control  # noqa: E402
from wordbound.lm.bridges.genlm_control import WordListPotential  # noqa: E402

NUM_PARTICLES = 10
MAX_TOKENS = 12
SEED = 1
"""With others all particles may die of a word that the grammar does not go on from."""
COLOURS = r" (red|green|blue|black|white)"
GRAMMAR = """
start: " the " ANIMAL " and " "the " ANIMAL
ANIMAL: "cat" | "dog" | "horse"
"""


async def main() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    model = load_model_by_name(sys.argv[1], backend="hf")
    found: dict[str, Any] = {"model": f"{type(model).__module__}.{type(model).__name__}"}
    llm = PromptedLLM(model)
    llm.set_prompt_from_str("My favorite color is")
    colours = BoolFSA.from_regex(COLOURS)
    # AWRS asks the automaton about tokens that the model proposes; the product is the local distribution itself.
    found["awrs"] = await texts(AWRS(llm, colours.coerce(llm, f=b"".join)))
    found["direct"] = await texts(direct_token_sampler(llm * colours.coerce(llm, f=b"".join)))
    llm.set_prompt_from_str("Tell me a story.")
    words = WordListPotential(WordList("en", 500, model), llm.vocab, max_tokens=MAX_TOKENS)
    found["words_awrs"] = await texts(AWRS(llm, words))
    # Fewer states than one text has: they are followed anew.
    genlm_control.MAX_STATES = 4
    found["words_awrs_uncached"] = await texts(AWRS(llm, words))
    found["words_direct"] = await texts(direct_token_sampler(llm * words))
    text = llm.tokenize("The day and the night and the day and the night and the day")
    # Near the end only what still ends in time may come.
    for length in range(2, MAX_TOKENS):
        if await words.prefix(text[:length]) == 0:
            await words.assert_logw_next_consistency(text[:length], top=5)
    assert await words.prefix(text[: MAX_TOKENS - 1]) == 0 == await words.complete(text[: MAX_TOKENS - 1])
    assert await words.prefix(text[:MAX_TOKENS]) == -np.inf == await words.complete(text[:MAX_TOKENS])
    await words.assert_autoreg_fact(llm.tokenize("The time"))
    llm.set_prompt_from_str("On the farm I saw")
    found["grammar"] = await texts(AWRS(llm, BoolCFG.from_lark(GRAMMAR).coerce(llm, f=b"".join)))
    print(json.dumps(found))


async def texts(sampler: Any) -> dict[str, float]:
    """By text, its share of the posterior."""
    sequences = await sampler.smc(n_particles=NUM_PARTICLES, ess_threshold=0.5, max_tokens=MAX_TOKENS)
    return {str(text): float(share) for text, share in sequences.decoded_posterior.items()}


if __name__ == "__main__":
    asyncio.run(main())
