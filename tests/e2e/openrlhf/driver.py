"""Run the released `openrlhf.cli.train_ppo_ray` with one declared GPU on this machine; arguments go to OpenRLHF."""

import os
import runpy
import sys

import ray

if __name__ == "__main__":
    ray.init(
        num_cpus=8,
        num_gpus=int(os.environ.get("DARE_TEST_GPUS", "1")),
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=300 << 20,
        _temp_dir=os.environ["DARE_TEST_RAY"],
    )
    sys.argv = ["train_ppo_ray", *sys.argv[1:]]
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
