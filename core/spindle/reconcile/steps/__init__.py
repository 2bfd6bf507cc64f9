"""The steps of a plan, in the order in which `spindle.reconcile.plan` takes them.

Each looks at the state and adds to the draft; none knows of the others. What one step wants and another must have seen
first (a claim before its pod) waits for the next pass, so that every object is made from what is really there.
"""
