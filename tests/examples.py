"""How many examples a property over whole passes or plans tries: enough to notice in `make test`, many in `make e2e`."""

from hypothesis import settings

THOROUGH = "thorough"
_TIMES = 5


def examples(few: int) -> int:
    """So many, or several times as many under ``--hypothesis-profile=thorough``."""
    return few * _TIMES if settings.get_current_profile_name() == THOROUGH else few
