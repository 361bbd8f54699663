"""What the masks of a client's own grammar may cost an engine, in seconds of processor time.

The engine waits for each mask, and one of xgrammar's cannot be interrupted, only left to a thread. So a grammar is
followed before the engine sees it (``vocab.compiler.structure_worker``), and measured while the engine uses it
(``vocab.vllm_plugin.client_grammars``), for what is harmless at first may explode after a beginning.

Ordinary ones are far from all of these (xgrammar 0.2.8 and llguidance 1.7 on two busy cores of a cloud, 49,152 tokens,
1,024 of them): a mask takes 0.02 to 0.2 ms, with the token before it; 1 ms under 100 optional members of a schema, 3 ms
under 300. Processor time of a thread, so that a busy machine ends nobody's answer.
"""

from typing import Final

MAX_CHECKED_S: Final = 0.005
"""Of a mask with the token before it, on average over ``NUM_CHECKED`` of them, where a grammar is tried. The average,
for a single one may take 20 ms, where a library's memory grows."""

NUM_CHECKED: Final = 8

MAX_MASK_S: Final = 0.05
"""Of one mask."""

MAX_LEFT_MASKS: Final = 4
"""That took longer and are still being made, each by a thread. Beside so many none is begun that may take long."""

MAX_ACCEPT_S: Final = 0.01
"""Of one token that is accepted: what takes so long is followed by a mask that takes 30 times as long."""

MAX_SEQUENCE_S: Final = 1.0
"""Of all masks of a sequence, and ``MAX_TOKEN_S`` for each of its tokens."""

MAX_TOKEN_S: Final = 0.002

MAX_STEP_S: Final = 0.02
"""Of the masks of all clients' grammars in one step of the engine; beyond it the costliest of them ends."""

MIN_ENDED_S: Final = 0.001
"""Cheaper ones are not ended for the cost of a step, however many there are."""

LARK_LIMITS: Final = {"step_max_items": 5_000, "step_lexer_fuel": 100_000}
"""Of llguidance, in a mask: 10 ms and 7 ms. A choice of 500 words needs 1,000 items; a grammar that explodes takes
2 s to reach llguidance's own limit of 50,000."""
