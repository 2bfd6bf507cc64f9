#!/bin/sh
# Starts Kafka after asking once more, at every start of the container, whether each disk is the one that belongs here:
# the restart of a container runs no init containers. Runs in the stock Kafka image with nothing but its own tools.
set -eu
H=$(dirname "$0")
. "$H/node.env"
LIBS=${SPINDLE_KAFKA_LIBS:-/opt/kafka/libs}
# Config providers read any file of this pod into settings that Kafka writes to its log. The property closes them for the clients inside of a broker; for
# its own configuration Kafka does not ask it (KafkaConfig hands the providers over itself), so that is looked at below. Nor does it where somebody asks
# for other settings of a running broker, which looks up what they name before it asks whether they may, and says what it found
# (ConfigAdminManager.preprocess). So the interface that all providers implement is a class here and no interface, and none of them can be loaded.
PROVIDERS="-Dorg.apache.kafka.automatic.config.providers=${SPINDLE_CONFIG_PROVIDERS:-none}"
CLASSES="$LIBS/*"
CLOSED=${SPINDLE_CLOSED:-/tmp/spindle-closed}
MESSAGE=${SPINDLE_TERMINATION_LOG:-/dev/termination-log}

refuse() {
    echo "$1" >&2
    echo "$1" >"$MESSAGE" 2>/dev/null || true
    exit 1
}

if [ -z "${SPINDLE_CONFIG_PROVIDERS:-}" ] && grep -q '^config\.providers' "$H/server.properties" 2>/dev/null; then
    refuse "server.properties names config providers, and those are closed. Way out: take config.providers out of the KafkaCluster."
fi

if [ -z "${SPINDLE_CONFIG_PROVIDERS:-}" ]; then
    NAME=org/apache/kafka/common/config/provider/ConfigProvider
    mkdir -p "$CLOSED/${NAME%/*}" || true
    # A class file: "public abstract class ConfigProvider {}" of Java 8.
    printf '\312\376\272\276\0\0\0\64\0\5\7\0\2\1\0\66%s\7\0\4\1\0\20java/lang/Object\4\41\0\1\0\3\0\0\0\0\0\0\0\0' $NAME >"$CLOSED/$NAME.class" || true
    [ "$(wc -c <"$CLOSED/$NAME.class")" -eq 106 ] || refuse "$CLOSED can't be written, which closes config providers. Way out: delete the pod."
    CLASSES="$CLOSED:$CLASSES"
fi

# What a dead disk answers, as musl and as glibc put it. Kafka takes such a dir as offline and runs without it.
dead() {
    case "$1" in
        *"I/O error"* | *"nput/output error"*) return 0 ;;
    esac
    return 1
}

check() { # mode, mount, log dir, directory id
    if [ "$1" = Placeholder ]; then
        [ -f "$2" ] || refuse "$2 is to be a placeholder, but something else is there. Way out: delete the pod."
        return 0
    fi
    if ! device=$(stat -c %d "$2" 2>&1); then
        dead "$device" && return 0
        refuse "$2 can't be looked at: $device. Way out: delete the pod."
    fi
    if [ "$SHARED_FILESYSTEM" = no ] && [ "$device" = "$(stat -c %d "$DISKS_ROOT")" ]; then
        refuse "$2 is not mounted any more: its path leads to a folder on the node's own file system. Way out: mount the disk on the node, then delete the pod."
    fi
    if ! text=$(cat "$3/meta.properties" 2>&1); then
        dead "$text" && return 0
        [ -f "$H/format.args" ] && [ -f "$2/spindle.json.pending" ] && return 0
        refuse "$2 carries no meta.properties: $text. Way out: put the disk that belongs here back, then delete the pod."
    fi
    found=$(printf '%s\n' "$text" | sed -n 's/^directory\.id=//p' | tr -d '\r')
    [ "$found" = "$4" ] || refuse "$2 is another disk than the one that belongs here: it carries directory id $found, not $4. Way out: put the right disk back, then delete the pod."
}

while read -r mode mount log directory; do
    check "$mode" "$mount" "$log" "$directory"
    root=$mount dir=$log # a controller's only disk, below
done <"$H/disks.list"

# A controller of the first quorum is formatted by Kafka's own tool, once. It writes meta.properties last, so that whatever lies there without
# one is what an interrupted try has left.
if [ "$ROLE" = controller ] && [ -f "$H/format.args" ] && [ -f "$root/spindle.json.pending" ]; then
    if [ ! -f "$dir/meta.properties" ]; then
        rm -rf "$dir/__cluster_metadata-0" "$dir/bootstrap.checkpoint"
        mkdir -p "$dir"
        set -f
        IFS='
'
        set -- $(cat "$H/format.args")
        unset IFS
        java "$PROVIDERS" -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$H/log4j2.properties" \
            -cp "$CLASSES" kafka.tools.StorageTool "$@" || refuse "Kafka's storage tool could not format $dir."
    fi
    mv "$root/spindle.json.pending" "$root/spindle.json"
fi

# How this start goes. A clean stop leaves a mark in every log dir, which Kafka takes away once it has loaded the logs; without it each log
# is read from its recovery point on. Threads do that side by side: more of them while it is to be done, as the disks and cores allow, and only
# for this one process, where it is not the user's own setting.
START=Empty DIRS=0
if [ "$ROLE" = broker ]; then
    while read -r mode mount log directory; do
        [ "$mode" = Active ] || continue
        DIRS=$((DIRS + 1))
        [ -n "$(ls -d "$log"/*-[0-9]* 2>/dev/null | head -n 1)" ] || continue
        if [ ! -e "$log/.kafka_cleanshutdown" ]; then
            START=Dirty
        elif [ "$START" = Empty ]; then
            START=Clean
        fi
    done <"$H/disks.list"
fi
RECOVERY=''
if [ "$START" = Dirty ] && ! grep -q '^num\.recovery\.threads\.per\.data\.dir=' "$H/server.properties"; then
    threads=$((2 * $(nproc) / DIRS))
    [ "$threads" -ge 4 ] || threads=4
    [ "$threads" -le 16 ] || threads=16
    RECOVERY="--override num.recovery.threads.per.data.dir=$threads"
    echo "Kafka was not stopped cleanly: its logs are recovered, $threads at a time on each of $DIRS disks."
fi
# The operator reads it beside the progress: the metrics are all that answers while logs are loaded.
JMX=${SPINDLE_JMX_CONFIG:-/tmp/spindle-jmx.yaml}
{
    cat "$H/jmx.yaml"
    echo "  - pattern: 'java.lang<type=OperatingSystem><>AvailableProcessors'"
    echo "    name: spindle_start"
    echo "    value: 1"
    echo "    labels: {kind: \"$START\"}"
} >"$JMX" 2>/dev/null || JMX=$H/jmx.yaml

# The user's own choice of a collector wins.
case "${KAFKA_OPTS:-}" in
    *-XX:+Use*GC*) GC= ;;
    *) GC="-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent" ;;
esac
BIND=${BIND:+$BIND:}
set -f
# shellcheck disable=SC2086 - the options are meant to be split
exec java ${KAFKA_HEAP_OPTS:-} $GC -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
    -Dlog4j2.configurationFile="$H/log4j2.properties" -javaagent:"$H/jmx.jar=${BIND}9404:$JMX" \
    ${KAFKA_OPTS:-} "$PROVIDERS" -cp "$CLASSES" kafka.Kafka "$H/server.properties" $RECOVERY
