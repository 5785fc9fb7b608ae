"""The tables of docs/openrlhf.md and -agent.md, from their declarations: openrlhf_tables.py url|logs|agent|shadow."""

import sys

from dare_reward._shadow_methods import LOGS as SHADOW_LOGS
from dare_reward.openrlhf import LOGS, keys_of
from dare_service.joins.url_options import URL_SPECS

if __name__ == "__main__":
    if sys.argv[1:] == ["url"]:
        print("| parameter | accepts | meaning |\n|---|---|---|")
        for s in URL_SPECS:
            print(f"| `{s.name}` | {s.accepts.removesuffix(' or null')} | {s.doc} |")
    else:
        print("| key | meaning |\n|---|---|")
        tables = {
            "shadow": {f"shadow_METHOD_{name}": meaning for name, meaning in SHADOW_LOGS.items()},
            "logs": {name: LOGS[name].meaning for name in keys_of("url")},
            "agent": {name: LOGS[name].meaning for name in keys_of("agent")},
        }
        for name, meaning in tables[sys.argv[1]].items():
            print(f"| `{name}` | {meaning} |")
