"""What the CMS learns from nodes: who is up, how entries spread, whether histories differ."""
