#!/bin/sh
# Starts Kafka. Before each start of the container it checks again that each disk is the expected one, because a container restart
# does not run the init containers. Runs in the stock Kafka image and uses only the tools of that image.
set -eu
H=$(dirname "$0")
. "$H/node.env"
. "$H/metrics.sh"
. "$H/logging.sh"
LIBS=${SPINDLE_KAFKA_LIBS:-/opt/kafka/libs}
# Config providers can read any file of this pod into settings, which Kafka writes to its log. The property disables them for the clients inside the broker.
# Kafka ignores the property for its own configuration (KafkaConfig passes the providers itself), so server.properties is checked below. Kafka also ignores
# it when a client changes settings of a running broker: the broker resolves references before it authorizes the request, and returns the resolved value
# (ConfigAdminManager.preprocess). So the interface that all providers implement is replaced by a class, and no provider can be loaded.
PROVIDERS="-Dorg.apache.kafka.automatic.config.providers=${SPINDLE_CONFIG_PROVIDERS:-none}"
CLASSES="$LIBS/*"
CLOSED=${SPINDLE_CLOSED:-/tmp/spindle-closed}
MESSAGE=${SPINDLE_TERMINATION_LOG:-/dev/termination-log}
# What the readiness script wrote about the process before this one.
rm -f "${SPINDLE_READY_STATE:-/tmp/spindle-ready}"

refuse() {
    echo "$1" >&2
    echo "$1" >"$MESSAGE" 2>/dev/null || true
    exit 1
}

if [ -z "${SPINDLE_CONFIG_PROVIDERS:-}" ] && grep -q '^config\.providers' "$H/server.properties" 2>/dev/null; then
    refuse "server.properties names config providers, which Spindle disables. To resolve: remove config.providers from the KafkaCluster."
fi

if [ -z "${SPINDLE_CONFIG_PROVIDERS:-}" ]; then
    NAME=org/apache/kafka/common/config/provider/ConfigProvider
    mkdir -p "$CLOSED/${NAME%/*}" || true
    # A class file: "public abstract class ConfigProvider {}" of Java 8.
    printf '\312\376\272\276\0\0\0\64\0\5\7\0\2\1\0\66%s\7\0\4\1\0\20java/lang/Object\4\41\0\1\0\3\0\0\0\0\0\0\0\0' $NAME >"$CLOSED/$NAME.class" || true
    [ "$(wc -c <"$CLOSED/$NAME.class")" -eq 106 ] || refuse "$CLOSED, which disables config providers, cannot be written. To resolve: delete the pod."
    CLASSES="$CLOSED:$CLASSES"
fi

# The I/O error of a dead disk, in the words of musl and of glibc. Kafka marks such a log dir offline and runs without it.
dead() {
    case "$1" in
        *"I/O error"* | *"nput/output error"*) return 0 ;;
    esac
    return 1
}

check() { # mode, mount, log dir, directory id
    if [ "$1" = Placeholder ]; then
        [ -f "$2" ] || refuse "$2 must be a placeholder file, but it is not a regular file. To resolve: delete the pod."
        return 0
    fi
    if ! device=$(stat -c %d "$2" 2>&1); then
        dead "$device" && return 0
        refuse "$2 cannot be inspected: $device. To resolve: delete the pod."
    fi
    if [ "$SHARED_FILESYSTEM" = no ] && [ "$device" = "$(stat -c %d "$DISKS_ROOT")" ]; then
        refuse "$2 is no longer mounted: its path leads to a folder on the node's own file system. To resolve: mount the disk on the node, then delete the pod."
    fi
    if ! text=$(cat "$3/meta.properties" 2>&1); then
        dead "$text" && return 0
        [ -f "$H/format.args" ] && [ -f "$2/spindle.json.pending" ] && return 0
        refuse "$2 has no readable meta.properties: $text. To resolve: attach the expected disk again, then delete the pod."
    fi
    found=$(printf '%s\n' "$text" | sed -n 's/^directory\.id=//p' | tr -d '\r')
    [ "$found" = "$4" ] || refuse "$2 is not the expected disk: its directory id is $found, not $4. To resolve: attach the expected disk again, then delete the pod."
}

while read -r mode mount log directory; do
    check "$mode" "$mount" "$log" "$directory"
    root=$mount dir=$log # a controller's only disk, below
done <"$H/disks.list"

# Kafka's storage tool formats each controller of the initial quorum once. It writes meta.properties last, so files without a meta.properties
# are from an interrupted attempt.
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

# Whether this start needs log recovery. After a clean stop each log dir contains a marker file, which Kafka deletes once it has loaded the logs; without
# it Kafka reads each log from its recovery point. Recovery runs in parallel threads, so this process gets more of them, depending on disks
# and cores, unless the user has set their number.
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
    echo "Kafka was not stopped cleanly: it recovers its logs with $threads threads per log dir ($DIRS log dirs)."
fi
# The operator reads the kind of start from the metrics, because nothing else answers while Kafka loads its logs.
write_exporter_config "$START" 2>/dev/null || JMX=$H/jmx.yaml
write_log_config 2>/dev/null || LOG4J=$H/log4j2.properties

# A garbage collector set by the user takes precedence.
case "${KAFKA_OPTS:-}" in
    *-XX:+Use*GC*) GC= ;;
    *) GC="-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent" ;;
esac
BIND=${BIND:+$BIND:}
set -f
# shellcheck disable=SC2086 - the options are meant to be split
exec java ${KAFKA_HEAP_OPTS:-} $GC -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
    -Dlog4j2.configurationFile="$LOG4J" -javaagent:"$H/jmx.jar=${BIND}9404:$JMX" \
    ${KAFKA_OPTS:-} "$PROVIDERS" -cp "$CLASSES" kafka.Kafka "$H/server.properties" $RECOVERY
