"""A few thousand real files through the queue, with a kill and a drain on the way: `python -m examples.demo`."""
