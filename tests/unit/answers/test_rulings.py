"""The rulings of docs/reference/answers.md are what `grade` says."""

import re
from pathlib import Path

from rows import each

from dare_reward.answers import grade

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "answers.md").read_text()
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (yes|no) \| .+ \|$", re.MULTILINE)
RULINGS = [(a.replace("\\|", "|"), b.replace("\\|", "|"), same == "yes") for a, b, same in ROW.findall(PAGE)]


def test_the_table_is_read():
    assert len(RULINGS) == PAGE.count(" | yes | ") + PAGE.count(" | no | ") > 30


@each("answer, other, same", RULINGS)
def test_a_ruling_holds(answer, other, same):
    assert grade(answer, other) is grade(other, answer) is same
