"""Listeners: their properties, Services and the addresses that brokers advertise."""
