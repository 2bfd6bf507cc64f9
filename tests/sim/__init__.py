"""A deterministic simulation of clusters that live, fail and are put right: one seed is one life, replayed bit by bit."""
