#!/bin/bash
# Kafka's readiness: a broker runs (state 3) and its followers have caught up; a controller knows a leader and a committed offset.
# A broker must pass twice in a row, two seconds apart, because right after a start no follower has fetched yet and the lag is 0. Once it has caught
# up, the lag is no longer checked: it varies with the load, and the operator decides whether the broker is in sync (the readiness gate).
# While Kafka starts, one call looks several times: the kubelet would ask again after five seconds only, and a rolling restart waits for the answer.
# The metrics of a broker cost it 70 ms of CPU time, so it looks every two seconds. A broker that has caught up is asked for them every 15 s only; in
# between it must listen.
set -u
H=$(dirname "$0")
. "$H/node.env"
. "$H/metrics.sh"
. "$H/logging.sh"
MAX_LAG=${SPINDLE_READY_MAX_LAG:-1000} # records
EVERY=${SPINDLE_READY_EVERY:-15} # seconds
APART=${SPINDLE_READY_APART:-2} # seconds between two looks
# Seconds in which a call looks again; three more to confirm. The kubelet ends it after ten (timeoutSeconds), and a look takes a second at times.
LOOKS=${SPINDLE_READY_LOOKS:-4}
# Start time of the process, successful checks in a row, time of the last one. The start script deletes it.
STATE=${SPINDLE_READY_STATE:-/tmp/spindle-ready}

not_yet() { # reason; with a second argument the successful checks still count
    [ "$#" -gt 1 ] || { good=0 checked=0; echo "$started 0 0" >"$STATE"; }
    why=$1
    return 1
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

look() { # whether it is ready; if not, why
    printf -v now '%(%s)T' -1
    text=$(scrape 2>/dev/null) || { not_yet "the JVM does not answer yet" keep; return; }
    started=$(sed -n 's/^process_start_time_seconds \([0-9.E]*\).*/\1/p' <<<"$text")
    [ -n "$started" ] || { not_yet "the metrics do not contain the process's start time yet" keep; return; }
    "look_at_$ROLE"
}

look_at_controller() {
    leader=$(value kafka_server_raft_metrics_current_leader)
    [ "${leader:--1}" -ge 0 ] || { not_yet "the quorum has no leader"; return; }
    committed=$(value kafka_server_raft_metrics_high_watermark)
    [ "${committed:-0}" -gt 0 ] || not_yet "the quorum has not committed anything yet"
}

look_at_broker() {
    state=$(value kafka_server_kafkaserver_brokerstate)
    [ "${state:-0}" = 3 ] || { not_yet "the broker's state is ${state:-unknown}, not 3 (running)"; return; }
    [ "$seen" = "$started" ] || good=0
    seen=$started
    if [ "$good" -lt 2 ]; then
        lag=$(value kafka_server_replicafetchermanager_maxlag)
        [ "${lag:-0}" -le "$MAX_LAG" ] || { not_yet "its followers are $lag records behind"; return; }
        if [ "$good" = 1 ] && [ $((now - checked)) -ge 0 ] && [ $((now - checked)) -lt "$APART" ]; then
            not_yet "caught up; the next check confirms it" keep
            return
        fi
        good=$((good + 1))
    fi
    checked=$now
    echo "$started $good $now" >"$STATE"
    [ "$good" -ge 2 ] || not_yet "caught up; the next check confirms it" keep
}

seen='' good=0 checked=0
[ -r "$STATE" ] && read -r seen good checked <"$STATE"
printf -v now '%(%s)T' -1
# A clock that was set back makes the last check one of the future.
if [ "$ROLE" = broker ] && [ "$good" -ge 2 ] && [ $((now - checked)) -ge 0 ] && [ $((now - checked)) -lt "$EVERY" ]; then
    (connect) 2>/dev/null && exit 0
    echo "the JVM does not answer any more"
    exit 1
fi

refresh_exporter_config 2>/dev/null || true
refresh_log_config 2>/dev/null || true
was=$good
until look; do
    [ "$good" = 1 ] && limit=$((LOOKS + 3)) || limit=$LOOKS
    # Of a broker that was ready the first failure counts: it stops.
    if [ "$was" -ge 2 ] || [ "$LOOKS" -eq 0 ] || [ "$SECONDS" -ge "$limit" ]; then
        echo "$why"
        exit 1
    fi
    sleep "$APART"
done
