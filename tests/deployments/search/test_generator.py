"""How steps are named; what a generator asks is told by ``test_client``, over an engine."""

from deployments.search.generator import CachedSteps


def test_each_step_has_a_name_of_its_own_and_names_its_parent() -> None:
    work = CachedSteps("s", [])
    first = work.step(None, keep=True)
    second, third = (work.step(first.keep, keep=True) for _ in range(2))
    assert (first.parent, second.parent, third.parent) == (None, first.keep, first.keep)
    assert len({first.keep, second.keep, third.keep}) == 3
    assert work.step(second.keep, keep=False).keep is None


def test_a_generation_is_let_go_once_its_successors_are_used() -> None:
    work = CachedSteps("s", [])
    root = work.step(None, keep=True).keep
    beams = [work.step(root, keep=True) for _ in range(3)]
    assert [beam.release for beam in beams] == [()] * 3
    assert work.step(beams[0].keep, keep=True).release == (root,)
    assert work.step(beams[2].keep, keep=True).release == ()


def test_what_a_search_leaves_is_let_go_by_the_next_step_of_any() -> None:
    unused: list[str] = []
    ended, other = CachedSteps("a", unused), CachedSteps("b", unused)
    left = ended.step(None, keep=True).keep
    ended.end()
    assert unused == [left]
    assert other.step(None, keep=True).release == (left,)
    assert other.step(None, keep=True).release == ()
