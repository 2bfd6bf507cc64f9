"""Reports: one self-contained HTML file each, for light and dark mode. Pure functions that return text."""
