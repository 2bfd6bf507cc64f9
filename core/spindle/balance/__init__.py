"""From a cluster's state and history to a proposal. No I/O and no clock, so that a run can be repeated from its record.

Picture ─ reading ─► Reading (snapshot, notes) ─ propose ─► Proposal | Nothing
   ▲                       ▲
record                  history
"""
