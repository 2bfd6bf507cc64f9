#!/bin/bash
# Kafka's readiness: a broker runs (state 3) and its followers have caught up; a controller knows a leader and a committed offset.
# A broker must pass twice in a row, because right after a start no follower has fetched yet and the lag is 0. Once it has caught up, the lag
# is no longer checked: it varies with the load, and the operator decides whether the broker is in sync (the readiness gate).
# The metrics of a broker cost it 70 ms of CPU time. So a broker that has caught up is asked for them every 15 s only; in between it must listen.
set -u
H=$(dirname "$0")
. "$H/node.env"
. "$H/metrics.sh"
. "$H/logging.sh"
MAX_LAG=${SPINDLE_READY_MAX_LAG:-1000} # records
EVERY=${SPINDLE_READY_EVERY:-15} # seconds
# Start time of the process, successful checks in a row, time of the last one. The start script deletes it.
STATE=${SPINDLE_READY_STATE:-/tmp/spindle-ready}

not_ready() {
    [ "$#" -gt 1 ] || echo "$started 0 0" >"$STATE"
    echo "$1"
    exit 1
}

connect() {
    exec 3<>"/dev/tcp/${BIND:-127.0.0.1}/9404"
}

scrape() {
    connect || return 1
    printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}

value() { # name of a metric: prints its value as an integer (Kafka writes ten million and more as 1.0E7); empty if the metric is missing
    local raw
    raw=$(sed -n "s/^$1\({[^}]*}\)\{0,1\} \([-0-9.E]*\)$/\2/p" <<<"$text" | head -n 1)
    [ -n "$raw" ] && LC_ALL=C printf '%.0f' "$raw"
}

seen='' good=0 checked=0
[ -r "$STATE" ] && read -r seen good checked <"$STATE"
printf -v now '%(%s)T' -1
# A clock that was set back makes the last check one of the future.
if [ "$ROLE" = broker ] && [ "$good" -ge 2 ] && [ $((now - checked)) -ge 0 ] && [ $((now - checked)) -lt "$EVERY" ]; then
    (connect) 2>/dev/null || not_ready "the JVM does not answer any more" keep
    exit 0
fi

refresh_exporter_config 2>/dev/null || true
refresh_log_config 2>/dev/null || true
text=$(scrape 2>/dev/null) || not_ready "the JVM does not answer yet" keep
started=$(sed -n 's/^process_start_time_seconds \([0-9.E]*\).*/\1/p' <<<"$text")
[ -n "$started" ] || not_ready "the metrics do not contain the process's start time yet" keep

if [ "$ROLE" = controller ]; then
    leader=$(value kafka_server_raft_metrics_current_leader)
    [ "${leader:--1}" -ge 0 ] || not_ready "the quorum has no leader"
    committed=$(value kafka_server_raft_metrics_high_watermark)
    [ "${committed:-0}" -gt 0 ] || not_ready "the quorum has not committed anything yet"
    exit 0
fi

state=$(value kafka_server_kafkaserver_brokerstate)
[ "${state:-0}" = 3 ] || not_ready "the broker's state is ${state:-unknown}, not 3 (running)"
[ "$seen" = "$started" ] || good=0
if [ "$good" -ge 2 ]; then
    echo "$started $good $now" >"$STATE"
    exit 0
fi
lag=$(value kafka_server_replicafetchermanager_maxlag)
[ "${lag:-0}" -le "$MAX_LAG" ] || not_ready "its followers are $lag records behind"
good=$((good + 1))
echo "$started $good $now" >"$STATE"
[ "$good" -ge 2 ] || { echo "caught up; the next check confirms it"; exit 1; }
