"""Requests to brokers and their responses."""

from typing import Any

from tests.sim.disks import Key, Log
from tests.sim.kafka.load import Load
from tests.sim.kafka.state import KafkaFault, Process, Timeout, known_dirs

UNEXPECTED = 42  # INVALID_REQUEST
STORAGE_ERROR, NO_DIR, NOT_THERE, BAD_TOPIC, UNKNOWN, BAD_ASSIGNMENT = 56, 57, 9, 17, 3, 39
_LONGEST_FOLDER = 255
_FUTURE = 40  # additional characters in the directory name of a future replica
_DEFAULTS = {
    "retention.ms": "604800000", "retention.bytes": "-1", "max.message.bytes": "1048588", "cleanup.policy": "delete", "min.insync.replicas": "1",
}  # fmt: skip


class Requests(Load):
    """The brokers' request handlers. Those of `_ASK_CONTROLLERS` are forwarded to the controllers."""

    def request(self, to: int | None, api: str, /, **args: Any) -> Any:
        """Send a request to a broker (None: any).

        Raises:
            KafkaFault: it answers with an error.
            Timeout: it does not answer.
        """
        wanted = [p for p in self.processes.values() if to in (None, p.broker)]
        process = next((p for p in wanted if p.loaded), None)
        if process is None:
            raise KafkaFault(8, "BROKER_NOT_AVAILABLE")
        if process.stuck:
            raise Timeout
        if api in _ASK_CONTROLLERS and not self.hears(process):
            raise Timeout
        return getattr(self, f"_on_{api}")(process, **args)

    # -- state

    def _on_describe_quorum(self, process: Process) -> Any:
        leading = self.leading()
        if leading is None:
            raise Timeout
        now = self.kernel.now

        def told(ident: int, directory: str, well: bool) -> dict[str, Any]:
            return {
                "id": ident, "directory_id": directory, "log_end_offset": 1000 if well else 10, "last_fetch": now if well else now - 60,
                "last_caught_up": now if well else now - 60,
            }  # fmt: skip

        running = {(c.id, c.directory): c for c in self.controllers.values()}
        voters = [told(i, d, (i, d) in running and now - running[i, d].began > 3.0) for i, d in self.voters]
        observers = [
            told(c.id, c.directory, True)
            for k, c in sorted(running.items())
            if k not in self.voters and now - c.began > 3.0
        ]
        observers += [
            told(p.broker, "A" * 22, self.hears(p)) for p in self.processes.values() if p.registered
        ]
        return {"leader": leading.id, "epoch": 1, "voters": voters, "observers": observers}

    def _on_describe_cluster(self, process: Process) -> Any:
        found = [
            {"id": b.id, "rack": b.rack, "fenced": b.fenced}
            for b in sorted(self.brokers.values(), key=lambda b: b.id)
        ]
        return {"cluster_id": self.cluster_id, "brokers": found}

    def _on_describe_topic_partitions(self, process: Process) -> Any:
        return [
            {
                "topic": p.topic, "partition": p.index, "leader": p.leader, "replicas": list(p.replicas), "isr": list(p.isr), "elr": list(p.elr),
            }
            for p in self.parts.values()
        ]  # fmt: skip

    def _on_list_reassignments(self, process: Process) -> Any:
        return {
            p.key: (list(p.adding), list(p.removing)) for p in self.parts.values() if p.adding or p.removing
        }

    def _on_describe_log_dirs(self, process: Process) -> Any:
        return [self._told_dir(process, path) for path in process.dirs]

    def _told_dir(self, process: Process, path: str) -> dict[str, Any]:
        fs = process.live().get(path)
        if fs is None:
            return {
                "path": path, "error": STORAGE_ERROR, "total": None, "usable": None, "cordoned": False, "replicas": {}, "futures": {},
            }  # fmt: skip
        replicas = {key: log.bytes for (key, suffix), log in fs.logs.items() if not suffix}
        futures = {}
        for (key, suffix), log in fs.logs.items():
            held = process.where(key)
            if suffix == "future" and held is not None:
                futures[key] = (log.bytes, max(0, held[1].logs[key, ""].end - log.end))
        return {
            "path": path, "error": 0, "total": fs.capacity, "usable": fs.free, "cordoned": path in self.cordoned(process),
            "replicas": replicas, "futures": futures,
        }  # fmt: skip

    def _on_describe_configs(self, process: Process, *, kind: str, name: str, keys: list[str]) -> Any:
        if kind == "broker" and name and name != str(process.broker):
            raise KafkaFault(UNEXPECTED, f"Unexpected broker id, expected {process.broker}")
        dynamic = self.configs.get((kind, name), {})
        # What does not hold is told all the same, among the synonyms, but for throttles.
        idle = kind == "broker" and bool(name) and not self.own_settings(process)
        default = self.configs.get(("broker", ""), {}) if kind == "broker" else {}
        told: dict[str, Any] = {}
        for key in keys:
            layers = []
            if key in dynamic and not (idle and key.endswith((".rate", ".per.second"))):
                layers.append((key, dynamic[key], 1 if kind == "topic" else 2))
            if key in default:
                layers.append((key, default[key], 3))
            if key in process.props:
                layers.append((key, process.props[key], 4))
            if key in _DEFAULTS:
                layers.append((key, _DEFAULTS[key], 5))
            if layers:
                holds = next((v for _, v, source in layers if source != 2), "") if idle else layers[0][1]
                told[key] = {"value": holds, "source": layers[0][2], "synonyms": layers}
        return told

    def _on_describe_features(self, process: Process) -> Any:
        return {
            "metadata.version": self.level,
            "kraft.version": 1,
            **({"eligible.leader.replicas.version": 1} if self.elr else {}),
        }

    def _on_describe_quota(self, process: Process) -> Any:
        return dict(self.quota)

    def _on_list_offsets(self, process: Process, *, partitions: list[Key], which: str) -> Any:
        told = {}
        for key in partitions:
            held = process.where(key)
            log = held[1].logs[key, ""] if held else None
            epoch = self.parts[key].epoch if log is not None and key in self.parts else -1
            told[key] = (
                (6, -1, -1) if log is None else (0, log.start if which == "earliest" else log.end, epoch)
            )
        return told

    def _on_offset_for_leader_epoch(self, process: Process, *, epochs: dict[Key, int]) -> Any:
        """Where the leader's own epoch ends in its log; -1 if the log does not have it."""
        told = {}
        for key, epoch in epochs.items():
            held, part = process.where(key), self.parts.get(key)
            if held is None or part is None or part.leader != process.broker:
                told[key] = (6, -1)
            elif part.epoch != epoch:
                told[key] = (74 if epoch < part.epoch else 75, -1)
            else:
                log = held[1].logs[key, ""]
                told[key] = (0, log.end if part.has_epoch(log) else -1)
        return told

    # -- replicas

    def _on_alter_replica_log_dirs(self, process: Process, *, dirs: dict[str, list[Key]]) -> Any:
        return {key: self._alter_dir(process, path, key) for path, keys in dirs.items() for key in keys}

    def _alter_dir(self, process: Process, path: str, key: Key) -> int:
        if len(f"{key[0]}-{key[1]}") + _FUTURE > _LONGEST_FOLDER:
            return BAD_TOPIC
        if path not in process.dirs:
            return NO_DIR
        live = process.live()
        if path not in live:
            return STORAGE_ERROR
        held = process.where(key)
        made = process.where(key, "future")
        if held is None:
            process.preferred[key] = path
            return NOT_THERE
        if process.offline:
            return STORAGE_ERROR
        if made is not None and made[0] != path:
            del made[1].logs[key, "future"]
        if held[0] != path and (key, "future") not in live[path].logs:
            if path in self.cordoned(process):
                return BAD_ASSIGNMENT
            if live[path].state == "hung":
                process.stuck = True
                raise Timeout
            self.on_copy(process, path, key)
            live[path].logs[key, "future"] = Log(held[1].logs[key, ""].topic_id)
        return 0

    def _on_alter_partition_reassignments(
        self, process: Process, *, assignments: dict[Key, list[int] | None], who: str = "somebody"
    ) -> Any:
        told = {}
        for key, target in assignments.items():
            part = self.parts.get(key)
            if part is None:
                told[key] = (UNKNOWN, "UNKNOWN_TOPIC_OR_PARTITION")
            elif target is None:
                told[key] = self.cancel(part)
            else:
                told[key] = self.reassign(part, target, by_spindle=who == "spindle-operator")
        return told

    def _on_elect_leaders(self, process: Process, *, partitions: list[Key], unclean: bool) -> Any:
        told = {}
        for key in partitions:
            part = self.parts.get(key)
            if part is None:
                told[key] = (UNKNOWN, "UNKNOWN_TOPIC_OR_PARTITION")
            else:
                told[key] = self.elect(part, "unclean" if unclean else "preferred")
        return told

    def _on_delete_records(self, process: Process, *, offsets: dict[Key, int]) -> Any:
        for key, offset in offsets.items():
            held = process.where(key)
            if held is None:
                continue
            log = held[1].logs[key, ""]
            gone = [record for _, record in log.entries[: max(0, offset - log.start)]]
            self.ledger.delete(self.parts[key].ident, gone)
        return dict.fromkeys(offsets, 0)

    # -- topics and settings

    def _on_create_topics(
        self,
        process: Process,
        *,
        topic: str,
        configs: dict[str, str],
        assignments: list[list[int]] | None = None,
        partitions: int = 1,
        rf: int = 1,
    ) -> Any:
        if any(p.topic == topic for p in self.parts.values()):
            return 36, "TOPIC_ALREADY_EXISTS"
        if assignments is not None and any(b not in self.brokers for each in assignments for b in each):
            return BAD_ASSIGNMENT, "INVALID_REPLICA_ASSIGNMENT"
        if assignments is not None and not all(any(map(self._active, each)) for each in assignments):
            return BAD_ASSIGNMENT, "All brokers of a partition are fenced or in controlled shutdown."
        self.make_topic(topic, assignments or self.placement(partitions, rf), configs)
        return 0, ""

    def _on_delete_topics(self, process: Process, *, topic: str) -> Any:
        self.delete_topic(topic)
        return 0, ""

    def _on_incremental_alter_configs(
        self, process: Process, *, kind: str, name: str, values: dict[str, str | None]
    ) -> Any:
        if kind == "topic" and not any(p.topic == name for p in self.parts.values()):
            return UNKNOWN, "UNKNOWN_TOPIC_OR_PARTITION"
        if kind == "broker" and name and name != str(process.broker):
            return UNEXPECTED, f"Unexpected broker id, expected {process.broker}"
        if "many" in values.values():
            return 40, "INVALID_CONFIG"
        made = {**self.configs.get((kind, name), {}), **values}
        if kind == "broker" and name and not known_dirs(process, made):
            return UNEXPECTED, "All entries in cordoned.log.dirs must be present in log.dirs or log.dir"
        held = self.configs.setdefault((kind, name), {})
        for key, value in values.items():
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value
        return 0, ""

    def _on_alter_quota(self, process: Process, *, values: dict[str, float | None]) -> Any:
        for key, value in values.items():
            if value is None:
                self.quota.pop(key, None)
            else:
                self.quota[key] = value

    def _on_update_features(self, process: Process, *, levels: dict[str, int]) -> Any:
        self.level = max(self.level, levels.get("metadata.version", 0))
        return 0, ""

    # -- brokers and voters

    def _on_unregister_broker(self, process: Process, *, broker: int) -> Any:
        return self.unregister(broker)

    def _on_add_voter(self, process: Process, *, voter: int, directory_id: str) -> Any:
        if any(i == voter for i, _ in self.voters):
            return 126, "DUPLICATE_VOTER"
        self.voters.append((voter, directory_id))
        return 0, ""

    def _on_remove_voter(self, process: Process, *, voter: int, directory_id: str) -> Any:
        if (voter, directory_id) not in self.voters:
            return 127, "VOTER_NOT_FOUND"
        self.voters.remove((voter, directory_id))
        return 0, ""


_ASK_CONTROLLERS = frozenset(
    {
        "describe_quorum", "list_reassignments", "alter_partition_reassignments", "elect_leaders", "create_topics", "delete_topics",
        "incremental_alter_configs", "unregister_broker", "add_voter", "remove_voter", "update_features", "alter_quota",
    }
)  # fmt: skip
