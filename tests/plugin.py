"""Methods of another package, as the fixture `plugin` installs them."""

from dataclasses import replace

from dare_reward.estimators.common import by_answer, share_of_votes
from dare_reward.estimators.method import Estimate, Method
from dare_reward.groups import Groups


def guess(groups: Groups) -> Estimate:
    """r = the answer's share of the votes."""
    share_A = share_of_votes(groups)
    return by_answer(groups, share_A, label_A=groups.first_max(share_A))


def guess_tokens(groups: Groups) -> Estimate:
    """The same; to be trained on are the tokens with more than 0.5 nats."""
    tokens = groups.ragged("token_entropies")
    return replace(guess(groups), token_mask=replace(tokens, values=tokens.values > 0.5))


METHODS = tuple(
    Method(
        name=function.__name__,
        function=function,
        summary="a guess",
        paper="arXiv:0000.00000",
        evidence="experimental",
        requires=needs,
        unverified="everything",
    )
    for function, needs in ((guess, ("answer",)), (guess_tokens, ("answer", "token_entropies")))
)
