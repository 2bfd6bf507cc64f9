"""Kafka in small: controllers, registrations, leaders, ISR and ELR, logs on file systems, reassignments, copies between dirs.

Once a second each broker does what it would do in that second. Records are numbers; what was acknowledged to producers that asked for all is in
the ledger, with every file system that ever held a copy.

What it states about Kafka, and where `tests/kafka` tries it on real processes:

- A blank disk formatted under the last ISR member loses everything; an unclean election first saves the survivor's part:
  `test_last_copy.test_disk_of_the_last_in_sync_replica_is_not_formatted`.
- A placeholder, dead and read-only disks are offline dirs: `test_offline_dirs.test_placeholder_dead_and_readonly_disks_are_offline_dirs`.
- Nothing moves between a broker's dirs while one is offline: `test_agent_moves.test_nothing_moves_while_a_dir_is_offline`.
- A dir chosen before the replica comes is where it lands: `test_moves.test_a_replica_lands_on_the_chosen_dir_at_the_pace_it_was_given`,
  and is forgotten by a restart: `test_moves.test_a_target_that_restarts_after_it_was_told_the_dir_is_put_right`.
- AlterReplicaLogDirs answers INVALID_TOPIC for names from 214 characters on:
  `test_statements.test_a_move_within_a_broker_takes_topic_names_of_up_to_213_characters`.
- No replica is made anew for a known directory id while any dir is offline; once none is, it is made, empty, on the dir with the fewest logs;
  a placeholder makes a start count as unclean; a replica that leaves by a shrink stays in the ELR:
  `test_statements.test_replicas_of_a_dir_that_is_gone_are_made_anew_only_once_no_dir_is_offline`.
- What left the assignment while its broker was down is set aside; a reassignment is undone by a cancel alone, never by naming the replicas from before:
  `test_statements.test_a_reassignment_is_undone_by_a_cancel_and_a_log_that_is_nobodys_is_set_aside`.
- A topic is not created if all brokers of one of its partitions are fenced: `test_statements.test_no_topic_is_created_on_brokers_that_are_down`.
- A broker takes settings of its own only; one that was started without a dir that its cordon names tells what is set on it, but its cordons do not hold, and it
  turns down what leaves the cordon as it is:
  `test_cordons.test_a_broker_that_lacks_a_cordoned_dir_runs_and_takes_nothing_until_the_cordon_is_right` and
  `test_cordons.test_a_stopped_brokers_cordon_is_changed_by_a_controller_and_by_no_broker`.
- A broker that hangs goes on to answer nothing: `test_operator_kafka.test_one_hung_broker_costs_one_time_out_and_only_its_own_log_dirs`.
- Kafka forgets a broker that holds replicas: `test_scaling.test_kafka_forgets_one_that_holds_replicas_so_rule_5_must_not`.
- Without a quorum a broker's metadata is old: `test_operator_kafka.test_without_a_quorum_brokers_metadata_is_not_believed`.
- A blank dir makes a start count as unclean, as one that is offline does: who starts with it is eligible no more:
  `test_unclean_elections.test_a_blank_disk_under_one_that_is_only_eligible_is_never_elected`.
- A reassignment whose replica was elected uncleanly is not over before something else changes the partition, and one whose replicas from before
  are all out of sync cannot be cancelled: `test_unclean_elections.test_an_unclean_election_does_not_end_a_reassignment_and_asking_again_does`.
- Requests that touch a disk that hangs are not answered, and its broker still leads when the disk answers again:
  `test_statements.test_requests_that_touch_a_disk_that_hangs_are_not_answered_while_its_broker_lives_on`.

Read in the code of 4.3.1 and not tried yet: that a broker in controlled shutdown gets no replicas of new topics; the order of the other steps of `PartitionChangeBuilder`; that the leader from before stays on record until
there is one again (that it may be elected where ISR and ELR are empty is tried, but only where it is the one replica); that a broker which cannot tell the
controllers of a failed dir stops; that fetchers, too, stay with a disk that hangs; that a follower joins
the ISR by what it has fetched, and never because its leader leads anew.
"""

from typing import Any

from tests.sim.disks import FileSystem, Key
from tests.sim.kafka.requests import Requests
from tests.sim.kafka.state import KafkaFault, StartError, Timeout
from tests.sim.kernel import Kernel


class KafkaSim(Requests):
    """The whole Kafka of one cluster, and its true state for the judge."""

    def __init__(self, kernel: Kernel, *, elr: bool, metadata_version: int) -> None:
        super().__init__(kernel, elr=elr, metadata_version=metadata_version)
        kernel.call_later(1.0, self._tick)

    def _tick(self) -> None:
        self.kernel.call_later(1.0, self._tick)
        for process in list(self.processes.values()):
            self.run_second(process)
        self.oversee()
        for part in list(self.parts.values()):
            self.run_partition(part)
        if self.loading:
            self.produce()
        self.acknowledge()

    def disk_changed(self, fs: FileSystem) -> None:
        """Called after a disk's state has changed."""
        self.ledger.knows(fs)

    def settle(self) -> None:
        """The end of the run: only the leaders' records count."""
        for part in self.parts.values():
            process = self.process_of(part.leader)
            held = process.where(part.key) if process is not None else None
            if held is not None:
                how = f"led by broker {part.leader} at the end"
                self.ledger.serves(part.key, part.ident, held[1].logs[part.key, ""], how)

    # -- the truth

    def truth_partitions(self) -> list[dict[str, Any]]:
        """Each partition in the controllers' metadata."""
        for part in self.parts.values():
            part.settle_factor()
        return [
            {
                "topic": p.topic, "partition": p.index, "leader": p.leader, "replicas": list(p.replicas), "isr": list(p.isr), "elr": list(p.elr),
                "dirs": dict(p.dirs), "rf": p.rf, "min_isr": self.min_isr(p.topic), "reassigned": p.reassigned,
            }
            for p in self.parts.values()
        ]  # fmt: skip

    def truth_epochless(self) -> list[str]:
        """Partitions whose leader answers followers with OFFSET_OUT_OF_RANGE, because its log does not have its epoch."""
        led = {(p.leader, p.key): p for p in self.parts.values() if len(p.isr) > 1}
        return [
            f"{part.topic[:20]}-{part.index}"
            for process in self.processes.values()
            for fs in process.live().values()
            for (key, suffix), log in fs.logs.items()
            if not suffix and (part := led.get((process.broker, key))) is not None and not part.has_epoch(log)
        ]

    def truth_topic_ids(self) -> dict[str, str]:
        """Topic → its id."""
        return {part.topic: part.topic_id for part in self.parts.values()}

    def truth_size(self, key: Key) -> int:
        """Bytes of the largest replica of a partition."""
        held = [process.where(key) for process in self.processes.values()]
        return max((place[1].logs[key, ""].bytes for place in held if place is not None), default=0)

    def truth_reassignments(self) -> dict[Key, Any]:
        """Replicas that are being added or removed, by partition."""
        return {p.key: (p.adding, p.removing) for p in self.parts.values() if p.adding or p.removing}

    def truth_offline(self) -> dict[int, list[str]]:
        """Broker → its offline log dirs."""
        return {p.broker: sorted(p.offline) for p in self.processes.values() if p.offline}

    def truth_effective(self, key: str) -> dict[int, str | None]:
        """The effective settings of each running broker, wherever they are set."""
        default = self.configs.get(("broker", ""), {})
        return {
            p.broker: self.own_settings(p).get(key, default.get(key, p.props.get(key)))
            for p in self.processes.values()
            if p.registered
        }

    def truth_settings(self) -> list[tuple[str, str, str]]:
        """Dynamic settings, except the topics' own."""
        return [
            (f"{kind} {name}", key, value)
            for (kind, name), held in sorted(self.configs.items())
            for key, value in held.items()
            if key != "min.insync.replicas"
        ]


__all__ = ["KafkaFault", "KafkaSim", "StartError", "Timeout"]
