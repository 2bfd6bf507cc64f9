"""Disks: what preflight and agents found, the verdict, the states, and what may be formatted."""
