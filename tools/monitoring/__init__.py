"""What is generated from the list of metrics: the reference page, the alerts, their page and the dashboards."""
