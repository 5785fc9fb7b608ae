"""What the released `openrlhf.cli.train_ppo_ray` reads of its arguments, as one JSON object; it is not run."""

import argparse
import json
import runpy
import sys

if __name__ == "__main__":
    read = argparse.ArgumentParser.parse_args

    def parse_args(self, *words, **named):
        found = vars(read(self, *words, **named))
        print(json.dumps({name: value for name, value in found.items() if isinstance(value, str | int | float | None)}))
        sys.exit(0)

    argparse.ArgumentParser.parse_args = parse_args
    sys.argv = ["train_ppo_ray", *sys.argv[1:]]
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
