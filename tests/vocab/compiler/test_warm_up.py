import subprocess
import sys

PROGRAM = """
import sys
from tests.vocab.toys import matcher_of, toy_states
from vocab.compiler.warm_up import warm_up

def num_compiled():
    kernels = {k for name, module in list(sys.modules.items()) if name.startswith("vocab.")
               for k in vars(module).values() if hasattr(k, "signatures")}
    return sum(len(kernel.signatures) for kernel in kernels)

warm_up()
before = num_compiled()
states, _ = toy_states(["the", "cat", "in front of", "in"], [" the"], n_words=3, lang="en")
matcher = matcher_of(states, 5)
matcher.accept_token(1 + ord("i"))
print(before > 10, num_compiled() - before)
"""


def test_a_warm_process_makes_no_machine_code_for_a_list_or_a_mask() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["True", "0"]
