"""Search for the networks of `spectral_vmamba_plus`: short runs of candidates from scratch, losers reported too."""
