"""What the services share of HTTP: routing, problems, roles, log pages."""
