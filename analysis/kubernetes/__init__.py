"""Objects of Kubernetes: containers of JSON, quantities, GPUs and times of pods, gangs."""
