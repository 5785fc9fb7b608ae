"""With this package and without, the released executors mean the same: 200 groups of tests/trainer/parity.py.

Without a release: tests/trainer/test_openrlhf_parity.py.
"""

from __future__ import annotations

import parity
import pytest

from dare_trainer.openrlhf import patch

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own
]


@pytest.mark.parametrize("kind", parity.KINDS)
async def test_a_group_means_the_same_with_and_without_the_package(live, release, monkeypatch, kind):
    released = release.agent.SingleTurnAgentExecutor
    more = type("SingleTurnAgentExecutor", (released,), {})
    assert patch.patch_class(more)
    service = live()
    parity.at_once(monkeypatch, service.removesuffix("/reward"))

    def ours(case):
        return parity.with_package(more([f"{service}?{case.query}{'' if case.sends else '&entropy=none'}"]), case)

    async def without(case):
        return await parity.group(released([f"{service}?{case.query}"]), case)

    wrong = await parity.wrong(kind, ours, without)
    assert not wrong, "\n".join(wrong[:40])
