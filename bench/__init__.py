"""Benchmarks that run without a cluster: `make bench`."""
