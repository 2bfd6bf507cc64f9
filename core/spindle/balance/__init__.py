"""From a look at a cluster and what its history told to a proposal. No I/O and no clock: a run can be made again on its record.

Picture ─ reading ─► Reading (snapshot, notes) ─ propose ─► Proposal | Nothing
   ▲                       ▲
record                  history
"""
