"""What travels between the deployments survives the way, and names what it holds."""

import pickle

from deployments.contract import ResolvedVocabulary
from vocab.options import ListOptions

PLAIN = ResolvedVocabulary(digest="a" * 64, lang="en", n_words=5, fewest_tokens=1)
OTHERS = [
    PLAIN.model_copy(update=fields)
    for fields in (
        {"digest": "b" * 64},
        {"changes_digest": "b" * 64},
        {"digest": "b" * 64, "changes_digest": "a" * 64},
        {"options": ListOptions(numbers=True)},
        {"options": ListOptions(case="any")},
    )
]


def test_the_name_is_that_of_list_changes_and_options_together() -> None:
    names = {one.id for one in (PLAIN, *OTHERS)}
    assert len(names) == 1 + len(OTHERS)
    assert all(len(name) == 64 for name in names)
    assert PLAIN.model_copy(update={"n_words": 9, "fewest_tokens": 3, "lang": "en-x"}).id == PLAIN.id


def test_a_vocabulary_survives_the_way() -> None:
    for vocabulary in (PLAIN, *OTHERS):
        for arrived in (
            pickle.loads(pickle.dumps(vocabulary)),  # noqa: S301 - written here
            ResolvedVocabulary.model_validate_json(vocabulary.model_dump_json()),
        ):
            assert arrived == vocabulary
            assert (arrived.id, hash(arrived)) == (vocabulary.id, hash(vocabulary))
    assert PLAIN.digests == ("a" * 64,)
    assert OTHERS[1].digests == ("a" * 64, "b" * 64)
