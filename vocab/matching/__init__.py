"""Follow one text: states, masks, the matcher and its reference.

For each step the backend of ``vocab.vllm_plugin`` asks ``matcher``, which asks ``states`` (under an author's controls
``word_controls``, which asks ``view``), whose rows ``mask_kernels`` fills. Texts without spaces are in ``segmented``,
and answers in JSON in ``structure``.
"""
