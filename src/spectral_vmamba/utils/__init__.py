"""Helpers that know nothing of images or models: files, interruption, progress, optional packages."""
