"""Where records went: counts, first reasons, and the exit codes that are made of them."""

import pytest

from dare_reward.ledger import FATES, Ledger


def _of(**counts: int) -> Ledger:
    ledger = Ledger()
    for fate, count in counts.items():
        ledger.count(fate, f"the first {fate}", count)  # type: ignore[arg-type]
    return ledger


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"read": 3}, 0),
        ({"read": 3, "merged": 9, "dropped": 2}, 0),
        ({"merged": 1}, 0),
        ({"read": 3, "refused": 1}, 1),
        ({"read": 3, "unreadable": 1}, 1),
        ({"refused": 3}, 2),
        ({"dropped": 3}, 2),
        ({}, 2),
    ],
)
def test_an_exit_code_says_whether_something_was_lost_and_whether_anything_was_read(
    counts: dict[str, int], code: int
) -> None:
    assert _of(**counts).exit_code == code


def test_the_first_reason_of_each_fate_is_kept() -> None:
    ledger = Ledger()
    ledger.count("read", records=300)
    ledger.count("refused", "line 7: no text")
    ledger.count("refused", "line 9: no answer")
    other = Ledger()
    other.count("refused", "line 1: no id")
    other.count("unreadable", "line 2: not JSON")
    ledger.add(other)
    assert ledger.sentence == "300 read; 3 refused (line 7: no text); 1 unreadable (line 2: not JSON)"
    assert ledger.lost == 4
    assert ledger.as_json() == {"read": 300, "merged": 0, "dropped": 0, "refused": 3, "unreadable": 1}


def test_info_names_every_fate_and_quotes_no_caller() -> None:
    assert list(Ledger().as_json()) == list(FATES)
    assert Ledger().sentence == ""
