"""Scale-in: which brokers are removed, whether they may be, and when nothing needs them any more."""
