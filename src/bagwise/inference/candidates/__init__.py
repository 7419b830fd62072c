"""Posteriors of one latent function per class, from candidate sets."""
