"""Vectors of pictures that do not care how the pictures are turned: computing, storing and searching them."""
