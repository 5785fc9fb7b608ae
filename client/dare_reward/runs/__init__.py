"""The run log: every scored group as one line of JSON, written off the path of a request, and what is made of it later.

for line in read_run("runs/exp1"):
    print(line["step"], line["group_id"], line["pseudo_label"], line["rewards"])
"""

from .reader import read_run

__all__ = ["read_run"]
