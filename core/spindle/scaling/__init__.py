"""Brokers that leave a cluster: which ones, whether they may, and when nothing needs them any more."""
