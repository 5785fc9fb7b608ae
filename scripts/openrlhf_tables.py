"""The tables of docs/openrlhf.md, from their declarations: python scripts/openrlhf_tables.py url|logs."""

import sys

from dare_service.configuration import URL_SPECS
from dare_service.openrlhf_reply import LOGS

if __name__ == "__main__":
    if sys.argv[1:] == ["url"]:
        print("| parameter | accepts | meaning |\n|---|---|---|")
        for s in URL_SPECS:
            print(f"| `{s.name}` | {s.accepts.removesuffix(' or null')} | {s.doc} |")
    else:
        print("| key | meaning |\n|---|---|")
        for name, meaning in LOGS.items():
            print(f"| `{name}` | {meaning} |")
