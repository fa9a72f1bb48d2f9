"""The simulator: workloads as struct-of-arrays, event kernels and metrics."""
