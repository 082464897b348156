"""The metadata service: decides, appends and answers over HTTP."""
