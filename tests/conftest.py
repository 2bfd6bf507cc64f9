"""For all tests: property tests are judged by what they find, never by how fast a busy machine runs them."""

from hypothesis import HealthCheck, settings

settings.register_profile("spindle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spindle")
