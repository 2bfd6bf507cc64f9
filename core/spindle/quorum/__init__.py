"""The controllers' quorum: how it grows, shrinks and gets a lost member back, one voter at a time (KIP-853)."""
