"""Write a poem in 500 words by sequential Monte Carlo, with ten particles.

Each particle is a poem that grows by one token at a time. The word list cuts off what the model would rather have said;
the probability of what is left is the particle's weight. Particles with small weights are replaced by copies of the
others, so that the poems that are left are drawn from what the model writes given that all words are listed.

    python examples/poem.py [MODEL] [--backend transformers|vllm|http] [--max-tokens 48] [--seed 1]
"""

import argparse
import asyncio
import math

import torch

from wordbound.lm import AsyncLM, WordList, load_model_by_name

PARTICLES = 10


async def write(model: AsyncLM, words: WordList, prompt: list[int], max_tokens: int) -> tuple[str, float]:
    """Return the poem with the largest weight, and the log of the probability that a text is of listed words."""
    texts: list[list[int]] = [[] for _ in range(PARTICLES)]
    states, weights, total = [words.start] * PARTICLES, torch.zeros(PARTICLES), 0.0
    for left in range(max_tokens, 0, -1):
        growing = [i for i in range(PARTICLES) if states[i] != words.ended]
        if not growing:
            break
        rows = await model.batch_next_token_logprobs([prompt + texts[i] for i in growing])
        for i, row in zip(growing, rows, strict=True):
            weights[i] += words.log_mass(states[i], row, left)
            probabilities = row.masked_fill(~words.mask(states[i], left), -math.inf).softmax(-1)
            token = int(torch.multinomial(probabilities, 1))
            texts[i], states[i] = [*texts[i], token], words.next(states[i], token)
        shares = weights.softmax(-1)
        if 1 / shares.square().sum() < PARTICLES / 2:
            total += float(weights.logsumexp(-1)) - math.log(PARTICLES)
            kept = torch.multinomial(shares, PARTICLES, replacement=True).tolist()
            texts, states, weights = [texts[i] for i in kept], [states[i] for i in kept], torch.zeros(PARTICLES)
    best = texts[int(weights.argmax())]
    total += float(weights.logsumexp(-1)) - math.log(PARTICLES)
    return model.tokenizer.decode([token for token in best if token not in words.eos_token_ids]), total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a poem in 500 words by sequential Monte Carlo.")
    parser.add_argument("model", nargs="?", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    parser.add_argument("--backend", default="transformers")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    with load_model_by_name(options.model, options.backend) as model:
        chat = [{"role": "user", "content": "Write a short poem about the sea and the night."}]
        prompt = model.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        words = WordList("en", 500, model, layout="lines")
        text, log_p = asyncio.run(write(model, words, prompt, options.max_tokens))
        print(f"{text}\n\nlog p(all words are listed) = {log_p:.1f}")
