"""The controller quorum: adding and removing voters and restoring a lost one, one voter at a time (KIP-853)."""
