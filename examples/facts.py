"""Write about animals in 1,000 words; check what each sentence says of their legs, and put right what is wrong.

At the end of each sentence a callback reads it. A sentence with a wrong number is written again, within the list.

    python examples/facts.py [MODEL] [--backend transformers|vllm] [--seed 1]
"""

import argparse

from wordbound.lm import WordList, load_model_by_name
from wordbound.lm.programs import Replace, Sampling, Step, StepContext, StopRun

LEGS = {"dog": "four", "bird": "two", "horse": "four", "fish": "no", "cat": "four", "chicken": "two"}


def check(step: StepContext) -> Replace:
    """Replace a sentence without the right number, and begin the next; the last sentence is the model's own."""
    if step.number > len(LEGS):
        raise StopRun
    animal = list(LEGS)[step.number - 1]
    sentence = step.text[max(0, step.text.rfind(f"A {animal}")) :]
    right = sentence if f" {LEGS[animal]} leg" in sentence else f"A {animal} has {LEGS[animal]} legs."
    print(f"{step.number}: {sentence!r}" + (f" -> {right!r}" if right != sentence else ""))
    following = "".join(f" A {animal} has" for animal in list(LEGS)[step.number : step.number + 1])
    return Replace(sentence, right + following)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write about animals, and put right how many legs they have.")
    parser.add_argument("model", nargs="?", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    parser.add_argument("--backend", default="transformers")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with load_model_by_name(options.model, options.backend) as model:
        words = WordList("en", 1000, model, extra_words=["legs", *LEGS])
        prompt = "How many legs do animals have? A woman has two legs. A spider has eight legs."
        step = Step(check, stop_strings=[".", "!", "?"])
        run = model.run_sync(prompt, vocab=words, max_tokens=100, sampling=Sampling(0.7, seed=options.seed), step=step)
        print(f"\n{run.text}")
