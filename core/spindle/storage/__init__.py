"""Changes of disks: adding, removing and expanding them, and the re-adoption of existing ones."""
