"""What runs inside a child process of the supervisor."""
