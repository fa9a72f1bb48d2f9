"""The simulator of serverless GPUs with a pool of rented workers (Allpass)."""
