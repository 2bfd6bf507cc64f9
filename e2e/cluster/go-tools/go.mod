module spindle.dev/testbed/tools

go 1.26.0
