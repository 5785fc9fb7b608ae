"""`python -m dare_reward` is `dare-reward`."""

from .cli import main

raise SystemExit(main())
