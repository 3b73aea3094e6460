"""Background jobs on PostgreSQL, run by a supervisor that forks real worker processes."""
