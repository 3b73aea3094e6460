"""An application for Stoker, and a demonstration of what it survives."""
