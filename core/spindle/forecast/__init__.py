"""When a disk will be full: the one forecaster, for the agent, the command line and whoever else wants to know.

`history` holds what was seen, `season` the week's shape, `trend` the rate that holds now, `forecast` what follows from them.
"""
