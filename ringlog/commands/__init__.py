"""The verbs of the command, a module each."""
