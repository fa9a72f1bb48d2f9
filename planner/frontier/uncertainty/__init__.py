"""How far to trust a frontier: bootstrap bands, wrong speedups, bursts, other laws."""
