"""What must run before `spectral_vmamba` is imported, and therefore cannot be a part of it. Imports nothing at once."""
