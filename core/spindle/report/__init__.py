"""Reports for people: one HTML file each that needs nothing else, in light and dark. Text in, text out."""
