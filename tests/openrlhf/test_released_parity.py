"""With this package and without, the released executors mean the same: 200 groups of tests/trainer/parity.py.

Without a release: tests/trainer/test_openrlhf_parity.py.
"""

from __future__ import annotations

import parity
import pytest
from released import MARKS

pytestmark = MARKS


@pytest.mark.parametrize("part", range(parity.PARTS))
async def test_a_group_means_the_same_with_and_without_the_package(live, release, born, monkeypatch, part):
    service = live()

    async def without(case):
        return await parity.group(release.agent.SingleTurnAgentExecutor([f"{service}?{case.query}"]), case)

    await parity.check(part, born, service.removesuffix("/reward"), without, monkeypatch)
