# Kafka's log configuration: the template log4j2.properties and the levels of spec.logging. Log4j reads the file again once it has changed (its
# monitorInterval). start.sh writes it; ready.sh writes it again when the levels have changed, for the reason given in metrics.sh. For sh and bash;
# H is the folder of log4j2.properties.
LOG4J=${SPINDLE_LOG4J_CONFIG:-/tmp/spindle-log4j2.properties}
LOGGERS=${SPINDLE_LOGGERS:-/etc/spindle/loggers/loggers} # a logger and its level on each line; no such file without any
LEVEL_LINES=100 # that are read; a spec has at most 50
LINE='
'
# state.change.logger writes a line for each partition and change: only its warnings and errors are of use. The authorizer says at INFO what it denied.
PRESET='state.change.logger WARN
kafka.authorizer.logger INFO'

levels() { # lines that are no logger and level would be other settings of Log4j; many would take longer than a probe may
    sed -n -E -e "${LEVEL_LINES}q" -e '/^[A-Za-z_][A-Za-z0-9_.$-]{0,199} (OFF|FATAL|ERROR|WARN|INFO|DEBUG|TRACE)$/p' "$LOGGERS" 2>/dev/null || true
}

log_settings() { # levels
    printf '%s\n' "$1" "$PRESET" | {
        number=0 names=' '
        while read -r name level; do
            # The user's levels come first. A logger with two entries would have either of their levels.
            case "$names" in *" $name "*) continue ;; esac
            [ -n "$name" ] || continue
            names="$names$name "
            if [ "$name" = root ]; then
                echo "rootLogger.level = $level"
            else
                number=$((number + 1))
                printf 'logger.n%s.name = %s\nlogger.n%s.level = %s\n' "$number" "$name" "$number" "$level"
            fi
        done
    }
}

write_log_config() {
    found=$(levels)
    {
        # Of two lines with the same key, the later one counts.
        cat "$H/log4j2.properties"
        log_settings "$found"
    } >"$LOG4J.new" && mv -f "$LOG4J.new" "$LOG4J" && printf '%s\n' "$found" >"$LOG4J.from"
}

refresh_log_config() {
    used=$(cat "$LOG4J.from" 2>/dev/null) || return 0 # written by no start.sh: the file is not ours
    [ "$used" = "$(levels)" ] || write_log_config
}
