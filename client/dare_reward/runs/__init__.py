"""The run log: every group as it was sent and its reply, one line of JSON each, written off the path of a request.

for line in read_run("runs/exp1"):
    print(line["step"], line["reply"]["pseudo_label"], line["reply"]["rewards"])
"""

from .reader import read_run

__all__ = ["read_run"]
