"""Jobs of fixed width on rented GPUs: what the plans of BOA are replayed with."""
