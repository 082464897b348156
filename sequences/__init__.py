"""Driving multi-step changes from step to step."""
