"""What the simulated Kafka (`tests.sim.smallkafka`) states about Kafka, and where `tests/kafka` tries it on real processes.

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
- A broker that hangs goes on to answer nothing: `test_operator_kafka.test_one_hung_broker_costs_one_time_out_and_only_its_own_log_dirs`.
- Kafka forgets a broker that holds replicas: `test_scaling.test_kafka_forgets_one_that_holds_replicas_so_rule_5_must_not`.
- Without a quorum a broker's metadata is old: `test_operator_kafka.test_without_a_quorum_brokers_metadata_is_not_believed`.
"""
