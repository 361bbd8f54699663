from vocab.options import ListOptions
from vocab.text.forms import Form
from vocab.text.text_automaton import NEVER, TextAutomaton, build_text_automaton


def form(text: str, rank: int, *, sentence_only: bool = False, elision: bool = False) -> Form:
    return Form(text, rank, sentence_only, elision)


def step(automaton: TextAutomaton, nodes: set[int], byte: int) -> set[int]:
    reached = set()
    for node in nodes:
        for edge in range(automaton.edge_start[node], automaton.edge_start[node + 1]):
            if automaton.edge_bytes[edge] == byte:
                reached.add(int(automaton.edge_targets[edge]))
    return reached


def with_continuations(automaton: TextAutomaton, nodes: set[int]) -> set[int]:
    found = set(nodes)
    for node in nodes:
        while (node := int(automaton.continuations[node])) >= 0:
            found.add(node)
    return found


def read(automaton: TextAutomaton, text: str) -> set[int]:
    nodes = {automaton.start}
    for byte in text.encode():
        nodes = step(automaton, with_continuations(automaton, nodes), byte)
    return nodes


def rank_to_stop(automaton: TextAutomaton, text: str) -> int:
    return int(min((automaton.complete_ranks[node] for node in read(automaton, text)), default=NEVER))


def test_a_text_may_stop_after_a_word_of_its_rank_and_after_its_marks() -> None:
    automaton = build_text_automaton([form("sol", 1), form("solo", 7)], ListOptions(), "es")
    assert rank_to_stop(automaton, "sol") == 1
    assert rank_to_stop(automaton, "solo") == 7
    assert rank_to_stop(automaton, "sol.") == 0
    assert rank_to_stop(automaton, "so") == NEVER
    assert rank_to_stop(automaton, "sol ") == NEVER


def test_a_node_knows_the_best_rank_that_lies_ahead() -> None:
    automaton = build_text_automaton([form("sol", 3), form("sola", 9), form("mar", 5)], ListOptions(), "es")
    (node,) = read(automaton, "s")
    assert automaton.smallest_ranks[node] == 3
    (node,) = read(automaton, "sola")
    assert automaton.smallest_ranks[node] == 9
    assert automaton.smallest_ranks[automaton.start] == 3


def test_forms_for_sentence_starts_share_all_nodes_that_they_can() -> None:
    plain = build_text_automaton([form("ab", 1), form("cd", 2)], ListOptions(), "es")
    mixed = build_text_automaton([form("ab", 1), form("cd", 2), form("Ab", 1, sentence_only=True)], ListOptions(), "es")
    words_only = sum(1 for node in range(len(mixed.continuations)) if node < mixed.hubs_first[1])
    assert len(read(mixed, "Ab")) == 1
    assert read(mixed, "ab, Ab") == set()
    assert read(mixed, "ab. Ab") != set()
    assert read(plain, "Ab") == set()
    assert words_only <= 2 * 5


def test_a_listed_capital_stays_usable_inside_a_sentence_where_a_sentence_form_shares_its_beginning() -> None:
    automaton = build_text_automaton(
        [form("Ab", 4), form("ac", 1), form("Ac", 1, sentence_only=True)], ListOptions(), "es"
    )
    assert rank_to_stop(automaton, "ac Ab") == 4
    assert rank_to_stop(automaton, "Ac") == 1
    assert rank_to_stop(automaton, "ac Ac") == NEVER


def test_an_elision_leads_straight_to_a_word() -> None:
    automaton = build_text_automaton([form("l'", 1, elision=True), form("eau", 2)], ListOptions(), "es")
    assert rank_to_stop(automaton, "l'") == NEVER
    assert rank_to_stop(automaton, "l'eau") == 2
    assert read(automaton, "l' ") == set()


def test_places_between_words_come_after_those_they_continue_as() -> None:
    automaton = build_text_automaton([form("a", 1)], ListOptions(), "es")
    order = {int(node): i for i, node in enumerate(automaton.hubs_first)}
    for node, i in order.items():
        onward = int(automaton.continuations[node])
        assert onward < 0 or order[onward] < i
