"""The tables of docs/openrlhf.md, from their declarations: python scripts/openrlhf_tables.py url|logs|shadow."""

import sys

from dare_reward.shadow import LOGS as SHADOW_LOGS
from dare_service.configuration import URL_SPECS
from dare_service.openrlhf_reply import LOGS

if __name__ == "__main__":
    if sys.argv[1:] == ["url"]:
        print("| parameter | accepts | meaning |\n|---|---|---|")
        for s in URL_SPECS:
            print(f"| `{s.name}` | {s.accepts.removesuffix(' or null')} | {s.doc} |")
    else:
        print("| key | meaning |\n|---|---|")
        shadow = {f"shadow_METHOD_{name}": meaning for name, meaning in SHADOW_LOGS.items()}
        for name, meaning in (shadow if sys.argv[1:] == ["shadow"] else LOGS).items():
            print(f"| `{name}` | {meaning} |")
