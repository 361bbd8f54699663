"""Fill in a form about a story's hero; where a field makes no sense, go back and write it anew.

A grammar has the form's lines and names its fields. At the end of each line a callback reads it.

    python examples/form.py [MODEL] [--backend transformers|vllm] [--seed 1]
"""

import argparse

from wordbound.lm import load_model_by_name
from wordbound.lm.programs import Replace, Sampling, Step, StepContext

FORM = r"""
start: "Name: " name "\nAge: " age "\nAnimal: " animal "\nWish: " wish "\n"
name[capture]: /[A-Z][a-z]{2,9}/
age[capture]: /[1-9][0-9]{0,2}/
animal[capture]: /[a-z]{3,12}/
wish[capture]: /to [a-z]{2,9}( [a-z]{2,9}){2,5}/
"""
MAX_TRIES = 8


def check(step: StepContext) -> Replace | None:
    """Take back a field that makes no sense, as often as ``MAX_TRIES`` steps allow."""
    field, _, value = step.text.splitlines()[-1].partition(": ")
    print(f"{step.number}: {field} = {value}")
    wrong = (field == "Age" and int(value) > 12) or (field == "Wish" and len(set(value.split())) < len(value.split()))
    return Replace(f"{value}\n", "") if wrong and step.number < MAX_TRIES else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fill in a form, and go back where a field makes no sense.")
    parser.add_argument("model", nargs="?", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    parser.add_argument("--backend", default="transformers")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with load_model_by_name(options.model, options.backend) as model:
        chat = [{"role": "user", "content": "Fill in the form about a child in a story: name, age, animal and wish."}]
        step = Step(check, stop_strings=["\n"])
        sampling = Sampling(seed=options.seed)
        run = model.run_sync(chat, lark=FORM, max_tokens=120, sampling=sampling, score_forced=False, step=step)
        print(f"\n{run.text}")
        for name, capture in run.captures.items():
            print(f"{name}: {capture.text!r}, log p = {capture.logprob:.1f}")
        print(f"{run.usage.forward_passes} forward passes, {run.usage.ff_tokens} tokens without one")
