"""Why jobs wait: GPUs that they may use, spells of waiting, and what these add up to."""
