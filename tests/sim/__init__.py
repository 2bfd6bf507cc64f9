"""A deterministic simulation of clusters with faults, and of their recovery: a seed is one run (a *life* in the code), reproducible bit by bit."""
