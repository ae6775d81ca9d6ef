"""Pure functions of tensors: the mathematics of the method. Torch (and scipy for sparse graphs) only.

Axis legend, used in every signature below this folder:
``b`` image of the batch, ``k`` path (visiting order), ``g`` parameter set, ``m`` eigenvector, ``l`` token,
``d`` channel, ``n`` state, ``c`` feature channel, ``h w`` rows and columns of the token grid.
"""
