import uuid

from kafka.protocol.api_message import ApiMessage

class UnregisterBrokerRequest(ApiMessage):
    def __init__(self, *, broker_id: int) -> None: ...

class UnregisterBrokerResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    error_message: str | None

class AddRaftVoterRequest(ApiMessage):
    class Listener:
        def __init__(self, *, name: str, host: str, port: int) -> None: ...

    def __init__(
        self,
        *,
        cluster_id: str,
        timeout_ms: int,
        voter_id: int,
        voter_directory_id: uuid.UUID,
        listeners: list[Listener],
    ) -> None: ...

class AddRaftVoterResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    error_message: str | None

class RemoveRaftVoterRequest(ApiMessage):
    def __init__(self, *, cluster_id: str, voter_id: int, voter_directory_id: uuid.UUID) -> None: ...

class RemoveRaftVoterResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
