import subprocess
import sys
import time

from vllm.entrypoints.serve.exception_handling import error_response

from vocab.vllm_plugin import patches

PROGRAM = """
import time
from vllm.entrypoints.serve import create_error_response
from vocab.vllm_plugin import patches
patches.limit_sanitized_messages()
patches.limit_sanitized_messages()
start = time.process_time()
made = create_error_response(ValueError("Cannot find " + "/a" * 15_000))
print(len(made.error.message), made.error.message[:14], time.process_time() - start < 1)
"""


def test_a_long_message_is_truncated_before_vllm_looks_for_paths() -> None:
    # In a program of its own: the patch stays.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[-2] == f"{patches.MAX_MESSAGE_CHARS} Cannot find /a True"


def test_a_short_message_stays_as_vllm_makes_it() -> None:
    text = "Cannot read /usr/lib/python/x.py at <a at 0x7f>."
    assert patches._sanitize_beginning(error_response.sanitize_message, text) == error_response.sanitize_message(text)


def test_the_worst_message_takes_little_time() -> None:
    start = time.process_time()
    error_response.sanitize_message("/a" * (patches.MAX_MESSAGE_CHARS // 2))
    assert time.process_time() - start < 0.1
