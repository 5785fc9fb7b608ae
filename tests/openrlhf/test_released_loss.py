"""`train_on=reasoning` in the release's own tensors: what the executor returns, through its experience and its loss."""

from __future__ import annotations

from types import SimpleNamespace

import fakes
import parity
import pytest
from released import MARKS

pytestmark = MARKS
TRAINED = {
    "ответ: \\boxed{½π}🙂": "ответ: \\boxed{}🙂",
    "5 + 5 is \\boxed{10}, 10": "5 + 5 is \\boxed{}, 10",
    "nothing": "nothing",
}


async def test_the_answers_tokens_have_no_gradient(live, release, born):
    torch = pytest.importorskip("torch")
    case = parity.Case("loss", tuple(TRAINED), (0.1,) * 3, (False,) * 3)
    executor = born(f"{live()}?method=ttrl&entropy=none&train_on=reasoning")
    found = await parity.group(executor, case)
    await fakes.close(executor)
    generator = release.samples.SamplesGenerator
    loss, mean = release.module("models.loss").PolicyLoss(), release.module("models.utils").masked_mean
    for response, trained in zip(found, TRAINED.values(), strict=True):
        experience = generator._process_response_into_experience(SimpleNamespace(), response, max_len=4096)
        mask = experience.action_mask.reshape(1, -1)
        policy, divergence = (torch.zeros(mask.shape, requires_grad=True) for _ in range(2))
        lost = loss(policy, policy.detach(), torch.ones(mask.shape), action_mask=mask)
        (lost[0] if isinstance(lost, tuple) else lost).backward()
        mean(divergence, mask).backward()
        tokens = response["observation_tokens"][1:]  # a log-probability is of the token after it
        for gradient in (policy.grad[0], divergence.grad[0]):
            seen = [token for token, g in zip(tokens, gradient, strict=True) if g]
            assert (fakes.Tokenizer().decode(seen[:-1]), seen[-1]) == (trained, fakes.END)
