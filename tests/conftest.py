"""For all tests: property tests are judged by what they find, never by how fast a busy machine runs them."""

import signal

from hypothesis import HealthCheck, settings

from tests.examples import THOROUGH

# A run that is terminated, as by a time limit, ends like one that is interrupted: fixtures take down mounts, loop devices and processes.
signal.signal(signal.SIGTERM, signal.default_int_handler)

settings.register_profile("spindle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(THOROUGH, settings.get_profile("spindle"))
settings.load_profile("spindle")
