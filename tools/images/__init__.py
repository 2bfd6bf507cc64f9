"""Assembles Spindle's images from Debian's packages and Python wheels, without running anything of the image: also for another architecture."""
