"""What any request needs of machine code is there once a process is ready."""

import subprocess
import sys

PROGRAM = """
import sys, tempfile
from pathlib import Path
import numpy as np
from random import Random
from tests.vocab.toys import STOP, allowed_tokens
from vocab.artefacts.artefact import overlay_to_bytes
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import byte_speller
from vocab.automaton.trie_builder import build_words
from vocab.compiler.warm_up import warm_up
from vocab.lists.wordlists import WordList
from vocab.matching.controls import Controls, NewWords, RequiredWord
from vocab.matching.engine_cache import EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.matching.structure.schema import prepare
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

def num_compiled():
    kernels = {(name, kernel) for name, module in list(sys.modules.items()) if name.startswith("vocab.")
               for kernel in vars(module).values() if hasattr(kernel, "signatures")}
    return {kernel: len(kernel.signatures) for _, kernel in kernels}

warm_up()
before = num_compiled()
speller, random = byte_speller(STOP), Random(1)
store = ArtefactStore(Path(tempfile.mkdtemp()), 10**8)
english = build_words(WordList("en", ("the", "cat", "in front of", "Mr.", "dog"), "inline"), speller)
chinese = build_segmented(WordList("zh", ("一", "一二", "三", "四"), "inline"), speller, ReferenceWords(("四五",), ""))
for words in (english, chinese):
    store.save(words)
english, chinese = store.load(english.digest), store.load(chinese.digest)
added = build_overlay(english, ListChanges(("fox",), ("cat",)), speller)
sixth = build_segmented_overlay(chinese, ListChanges(("六",), ("三",)), speller)
for overlay in (added, sixth):
    store.write_bytes(overlay.digest, overlay_to_bytes(overlay))
schema = prepare({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a"]})
controls = Controls(NewWords(4, 2, 1), (RequiredWord((1,)),), 4, 1, 2, 60)
lists = EngineCache(store.path_of("0" * 64).parent, speller.facts)
sentence = ListOptions(end="sentence")
for words, overlay in ((english, added), (chinese, sixth)):
    for changes in (None, overlay.digest):
        for reference in (
            GrammarReference(words.digest, sentence, 3, None, changes),
            GrammarReference(words.digest, sentence, 3, 60, changes, no_repeat=3, min_tokens=4),
            GrammarReference(words.digest, sentence, 3, 60, changes, place=0),
            GrammarReference(words.digest, sentence, 3, 60, changes, controls=controls),
            GrammarReference(words.digest, ListOptions(), 3, 60, changes, schema=schema),
        ):
            matcher = Matcher.of(reference, lists.for_text(reference), (STOP,))
            for _ in range(60):
                if matcher.is_terminated:
                    break
                matcher.accept_token(random.choice(sorted(allowed_tokens(matcher, len(speller.facts)))))
print(len(before) > 10, {k.__name__: n - before.get(k, 0) for k, n in num_compiled().items() if n != before.get(k, 0)})
"""


def test_a_ready_process_makes_no_machine_code_for_any_kind_of_list_or_request() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["True", "{}"]
