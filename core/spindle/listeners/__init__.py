"""Listeners: their properties, Services, own certificates and the addresses that brokers advertise."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("own_certificates",)
