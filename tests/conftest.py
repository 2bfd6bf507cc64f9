"""For all tests: property tests are judged by what they find, never by how fast a busy machine runs them."""

from hypothesis import HealthCheck, settings

from tests.examples import THOROUGH

settings.register_profile("spindle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(THOROUGH, settings.get_profile("spindle"))
settings.load_profile("spindle")
