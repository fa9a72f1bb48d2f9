"""Series of metrics of GPUs over time: samples, and a file per format they are read from."""
