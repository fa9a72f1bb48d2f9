"""Job classes that scale, and their replay on rented GPUs: what frontiers and policies share."""
