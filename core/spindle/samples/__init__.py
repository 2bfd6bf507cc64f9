"""Samples that agents publish of one broker at a time, and their encoding as Kafka records.

The operator must not import this package, because it loads pyarrow.
"""
