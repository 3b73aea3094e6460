"""The benchmark: what Stoker does per second, beside what bare psycopg does in the same minute on the same machine."""
