"""Writing a volume to a store: what is covered, in which order, with how much memory, where to, and what was done."""
