# The configuration of the metrics exporter: what every pod exports, the topics of spec.metrics.topics, and how this Kafka found its logs.
# The exporter reads the file again once it has changed. start.sh writes it; ready.sh writes it again when the list of topics has changed, because the
# kubelet keeps the mounted list up to date and nothing else of Spindle runs in this container. For sh and bash; H is the folder of jmx.yaml.
JMX=${SPINDLE_JMX_CONFIG:-/tmp/spindle-jmx.yaml}
TOPICS=${SPINDLE_TOPICS:-/etc/spindle/topics/topics} # one name a line; no such file without topics
LINE='
'

topics() { # lines that are no name of a topic would be patterns
    sed -n '/^[A-Za-z0-9._-]\{1,249\}$/p' "$TOPICS" 2>/dev/null || true
}

# Exact names only: the exporter looks them up, while it compares a pattern, at each scrape and readiness probe, with every bean of that domain. So there
# is none for the logs of a topic's partitions, of which a broker has tens of thousands of beans.
beans() { # names of topics, one a line
    [ -n "$1" ] || return 0
    for bean in BytesInPerSec BytesOutPerSec MessagesInPerSec TotalProduceRequestsPerSec TotalFetchRequestsPerSec \
        FailedProduceRequestsPerSec FailedFetchRequestsPerSec; do
        printf '%s\n' "$1" | sed "s/.*/  - \"kafka.server:type=BrokerTopicMetrics,name=$bean,topic=&\"/"
    done
}

write_exporter_config() { # Clean, Dirty or Empty
    names=$(topics)
    {
        while IFS= read -r line; do
            printf '%s\n' "$line"
            [ "$line" != includeObjectNames: ] || beans "$names"
        done <"$H/jmx.yaml"
        echo "  - pattern: 'java.lang<type=OperatingSystem><>AvailableProcessors'"
        echo "    name: spindle_start"
        echo "    value: 1"
        echo "    labels: {kind: \"$1\"}"
    } >"$JMX.new" && mv -f "$JMX.new" "$JMX" && printf '%s\n' "$1" "$names" >"$JMX.from"
}

refresh_exporter_config() {
    from=$(cat "$JMX.from" 2>/dev/null) || return 0 # written by no start.sh: the file is not ours
    kind=${from%%"$LINE"*}
    names=$(topics)
    [ "$from" = "$kind${names:+$LINE$names}" ] || write_exporter_config "$kind"
}
