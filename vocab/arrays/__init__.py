"""Arrays, numbers for what is found, and compiled kernels: what the library's inner loops are made of."""
