#!/bin/sh
# Starts Kafka after asking once more, at every start of the container, whether each disk is the one that belongs here:
# the restart of a container runs no init containers. Runs in the stock Kafka image with nothing but its own tools.
set -eu
H=$(dirname "$0")
. "$H/node.env"
LIBS=${SPINDLE_KAFKA_LIBS:-/opt/kafka/libs}
MESSAGE=${SPINDLE_TERMINATION_LOG:-/dev/termination-log}

refuse() {
    echo "$1" >&2
    echo "$1" >"$MESSAGE" 2>/dev/null || true
    exit 1
}

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
        java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$H/log4j2.properties" \
            -cp "$LIBS/*" kafka.tools.StorageTool "$@" || refuse "Kafka's storage tool could not format $dir."
    fi
    mv "$root/spindle.json.pending" "$root/spindle.json"
fi

# The user's own choice of a collector wins.
case "${KAFKA_OPTS:-}" in
    *-XX:+Use*GC*) GC= ;;
    *) GC="-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent" ;;
esac
BIND=${BIND:+$BIND:}
set -f
# shellcheck disable=SC2086 - the options are meant to be split
exec java ${KAFKA_HEAP_OPTS:-} $GC -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
    -Dlog4j2.configurationFile="$H/log4j2.properties" -javaagent:"$H/jmx.jar=${BIND}9404:$H/jmx.yaml" \
    ${KAFKA_OPTS:-} -cp "$LIBS/*" kafka.Kafka "$H/server.properties"
