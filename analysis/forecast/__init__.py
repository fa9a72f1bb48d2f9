"""How many GPUs will be asked for in the next hours, and how sure that is."""
