"""Usage of each disk, past and future: samples, their history on the disk itself, and the forecast from them.

`records` and `store` belong to a disk's process and stay small; `counting`, `usage_history`, `forecast` and `tracker` to the agent.
"""
