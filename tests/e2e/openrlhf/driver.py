"""Run the released `openrlhf.cli.train_ppo_ray` with one declared GPU on this machine; arguments go to OpenRLHF."""

import os
import runpy
import sys

import ray

if __name__ == "__main__":
    settings = {"include_dashboard": False, "object_store_memory": 300 << 20, "_node_ip_address": "127.0.0.1"}
    ray.init(num_cpus=8, num_gpus=1, _temp_dir=os.environ["DARE_TEST_RAY"], **settings)
    sys.argv = ["train_ppo_ray", *sys.argv[1:]]
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
