"""The tables of docs/openrlhf.md, from their declarations: python scripts/openrlhf_tables.py url|logs|shadow."""

import sys

from dare_reward._shadow_methods import LOGS as SHADOW_LOGS
from dare_service.joins.openrlhf_reply import LOGS
from dare_service.joins.url_options import URL_SPECS

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
