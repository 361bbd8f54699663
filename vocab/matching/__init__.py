"""Follow one text: states, masks, the matcher and its reference."""
