"""Follow one text: states, masks, the matcher and its reference.

For each step the backend of ``vocab.vllm_plugin`` asks ``matcher``, which asks ``states`` (with extra words ``union``),
which fill the row in ``masks``.
"""
