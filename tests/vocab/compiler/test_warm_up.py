import subprocess
import sys

PROGRAM = """
import sys
from random import Random
from tests.vocab.toys import matcher_of, toy_states
from tests.vocab.matching.structure.worlds import STOP, World, allowed_tokens
from vocab.compiler.warm_up import warm_up
from vocab.matching.matcher import Matcher
from vocab.matching.structure.states import StructuredStates

def num_compiled():
    kernels = {k for name, module in list(sys.modules.items()) if name.startswith("vocab.")
               for k in vars(module).values() if hasattr(k, "signatures")}
    return sum(len(kernel.signatures) for kernel in kernels)

warm_up()
before = num_compiled()
states, _ = toy_states(["the", "cat", "in front of", "in"], [" the"], n_words=3, lang="en")
matcher = matcher_of(states, 5)
matcher.accept_token(1 + ord("i"))
text = {"type": "string"}
members = {"a": text, "b": {"type": "array", "items": text}}
world = World.of({"type": "object", "properties": members, "required": ["a"]})
answer, random = Matcher(StructuredStates(world.structured), (STOP,), 60), Random(1)
while not answer.is_terminated:
    answer.accept_token(random.choice(sorted(allowed_tokens(answer, len(world.facts)))))
print(before > 10, num_compiled() - before)
"""


def test_a_warm_process_makes_no_machine_code_for_a_list_a_mask_or_json() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["True", "0"]
