"""One pass: `plan.plan` calls the rooms in order and builds the status."""
