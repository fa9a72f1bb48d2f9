"""Studies: for each, a request with typed fields and the function that answers it."""
