"""The error with which a call is refused, for tests of what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dare_reward.errors import DareError, RequestError


def refusal(call: Callable[..., Any], *given: Any, error: type[DareError] = RequestError, **named: Any) -> Any:
    """What the call raises, which must be such an error."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    return caught.value
