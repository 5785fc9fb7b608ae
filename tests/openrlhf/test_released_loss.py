"""`train_on=reasoning` in the release's own tensors: what the executor returns, through its experience and its loss."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dare_reward.openrlhf import Label
from dare_reward.openrlhf.url import ActorSettings
from dare_trainer.openrlhf.group import GroupReward
from dare_trainer.openrlhf.rollout_reader import RolloutReader

pytestmark = [pytest.mark.openrlhf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
END = 0


class Bytes:
    """A tokenizer whose tokens are bytes, so that a character may be several."""

    def decode(self, ids, **_):
        return bytes(i for i in ids if i != END).decode(errors="replace")


@pytest.mark.parametrize(
    ("text", "trained"),
    [
        ("ответ: \\boxed{½π}🙂", "ответ: \\boxed{}🙂"),
        ("5 + 5 is \\boxed{10}, 10", "5 + 5 is \\boxed{}, 10"),
        ("nothing", "nothing"),
    ],
)
def test_the_answers_tokens_have_no_gradient(release, text, trained):
    torch = pytest.importorskip("torch")
    reward = GroupReward(["http://h"])
    reward.settings = ActorSettings.read("method=ttrl&entropy=none&train_on=reasoning")
    completion = SimpleNamespace(token_ids=[*text.encode(), END], finish_reason="stop", logprobs=None)
    completion.text = ""
    read = RolloutReader(reward.settings).read(completion, "", Label(), Bytes(), None)
    whole = [1, 2, 3, *completion.token_ids]
    made = {
        "observation_tokens": whole, "rollout_log_probs": None, "truncated": False, "reward": 1.0, "scores": 1.0,
        "extra_logs": {}, "action_ranges": reward.actions([(3, len(whole))], SimpleNamespace(masked=False), read),
    }  # fmt: skip
    generator = release.module("trainer.ppo_utils.samples_generator").SamplesGenerator
    experience = generator._process_response_into_experience(
        SimpleNamespace(), {"prompt": "p", "label": "", **made}, max_len=4096
    )
    mask = experience.action_mask.reshape(1, -1)
    loss = release.module("models.loss").PolicyLoss()
    mean = release.module("models.utils").masked_mean
    policy, divergence = (torch.zeros(mask.shape, requires_grad=True) for _ in range(2))
    found = loss(policy, policy.detach(), torch.ones(mask.shape), action_mask=mask)
    (found[0] if isinstance(found, tuple) else found).backward()
    mean(divergence, mask).backward()
    said = made["observation_tokens"][1:]  # a log-probability is of the token after it
    for gradient in (policy.grad[0], divergence.grad[0]):
        assert bytes(token for token, g in zip(said, gradient, strict=True) if g) == trained.encode() + bytes([END])
