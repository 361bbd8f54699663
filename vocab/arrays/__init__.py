"""Arrays, byte tries and compiled kernels: what the library's inner loops are made of."""
