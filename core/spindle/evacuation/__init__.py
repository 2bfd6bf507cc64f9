"""What follows a bad disk: evacuation, replacement, dropped and restored replicas, fencing, leadership and lost nodes."""
