"""ms-swift's `--external_plugins`: makes `--reward_funcs dare` known.

It has a folder of its own: ms-swift puts a plugin's folder first on sys.path, where stacks/trl.py would be `trl`.
"""

from dare_reward.stacks.swift import register

register()
