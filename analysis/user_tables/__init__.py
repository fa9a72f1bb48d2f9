"""Small tables that users write by hand: throughputs, goodput parameters, checkpoints."""
