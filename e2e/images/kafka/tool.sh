#!/bin/sh
# The start scripts of Kafka that examples use, each a link to this file.
case "${0##*/}" in
  kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
  kafka-console-producer.sh) class=org.apache.kafka.tools.ConsoleProducer ;;
  kafka-console-consumer.sh) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
  *) echo "${0##*/}: unknown" >&2; exit 64 ;;
esac
exec java -Xmx256m -cp "/opt/kafka/libs/*" "$class" "$@"
