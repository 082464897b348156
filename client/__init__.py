"""The async client: propose, read, follow."""
