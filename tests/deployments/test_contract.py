"""The name of a resolved vocabulary."""

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
        {"options": ListOptions(possessive=True)},
        {"options": ListOptions(possessive=False)},
    )
]


def test_the_name_is_that_of_list_changes_and_options_together() -> None:
    names = {one.id for one in (PLAIN, *OTHERS)}
    assert len(names) == 1 + len(OTHERS)
    assert all(len(name) == 64 for name in names)
    assert PLAIN.digests == ("a" * 64,)
    assert OTHERS[1].digests == ("a" * 64, "b" * 64)
    assert PLAIN.model_copy(update={"n_words": 9, "fewest_tokens": 3, "lang": "en-x"}).id == PLAIN.id
