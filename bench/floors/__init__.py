"""What the same machine and the same PostgreSQL do without Stoker: one small program per floor."""
