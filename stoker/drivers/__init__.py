"""Where jobs are kept: PostgreSQL, or memory for tests."""
