"""A Kafka of many brokers on one machine: brokers that only answer what the operator asks, on loopback."""
