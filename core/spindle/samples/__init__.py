"""What an agent tells of one broker at a time: the sample, and the bytes that carry it through a Kafka topic.

Nothing here is imported by the operator: pyarrow is loaded with it.
"""
