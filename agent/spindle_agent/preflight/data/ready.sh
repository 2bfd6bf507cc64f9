#!/bin/bash
# Kafka's own readiness: a broker runs (state 3) and its followers have caught up; a controller knows a leader, and that something is committed.
# Twice in a row, since right after a start no follower has fetched yet and none lags. Once caught up, lag is no longer asked for: it comes
# and goes with the load, and whether the broker stays in sync is the operator's to say (the readiness gate).
set -u
H=$(dirname "$0")
. "$H/node.env"
MAX_LAG=${SPINDLE_READY_MAX_LAG:-1000} # records
STATE=${SPINDLE_READY_STATE:-/tmp/spindle-ready}

not_ready() {
    [ "$#" -gt 1 ] || echo "$started 0" >"$STATE"
    echo "$1"
    exit 1
}

scrape() {
    exec 3<>"/dev/tcp/${BIND:-127.0.0.1}/9404" || return 1
    printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}

value() { # name: its value as a whole number (ten million and more come as 1.0E7), empty if the metric is missing
    local raw
    raw=$(sed -n "s/^$1\({[^}]*}\)\{0,1\} \([-0-9.E]*\)$/\2/p" <<<"$text" | head -n 1)
    [ -n "$raw" ] && LC_ALL=C printf '%.0f' "$raw"
}

text=$(scrape 2>/dev/null) || not_ready "the JVM does not answer yet" keep
started=$(sed -n 's/^process_start_time_seconds \([0-9.E]*\).*/\1/p' <<<"$text")
[ -n "$started" ] || not_ready "the metrics say nothing of the process yet" keep

if [ "$ROLE" = controller ]; then
    leader=$(value kafka_server_raft_metrics_current_leader)
    [ "${leader:--1}" -ge 0 ] || not_ready "the quorum has no leader"
    committed=$(value kafka_server_raft_metrics_high_watermark)
    [ "${committed:-0}" -gt 0 ] || not_ready "the quorum has committed nothing yet"
    exit 0
fi

state=$(value kafka_server_KafkaServer_BrokerState)
[ "${state:-0}" = 3 ] || not_ready "the broker's state is ${state:-unknown}, not 3 (running)"
seen='' good=0
[ -r "$STATE" ] && read -r seen good <"$STATE"
[ "$seen" = "$started" ] || good=0
[ "$good" -ge 2 ] && exit 0
lag=$(value kafka_server_ReplicaFetcherManager_MaxLag)
[ "${lag:-0}" -le "$MAX_LAG" ] || not_ready "its followers are $lag records behind"
good=$((good + 1))
echo "$started $good" >"$STATE"
[ "$good" -ge 2 ] || { echo "caught up; looking once more"; exit 1; }
