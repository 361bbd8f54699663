"""Texts of lists followed on the GPU: kernels, the arrays of lists there, a slot for each sequence, hooks in vLLM."""


class NotMaskedError(RuntimeError):
    """A text that vLLM's scheduler does not mask has no table on the device: it may not be sampled."""
