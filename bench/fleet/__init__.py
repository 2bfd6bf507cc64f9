"""Large clusters on one machine: passes over a converged world of the model, and observations of brokers on loopback that only answer questions."""
