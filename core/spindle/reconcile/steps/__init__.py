"""The steps of a plan, in the order in which `spindle.reconcile.plan` takes them.

Each step reads the state and adds to the plan, independently of the others. An action that needs the result of another step
(a pod needs its claim) waits for the next pass, so that it is based on the observed result.
"""
