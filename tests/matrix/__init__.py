"""Every op on every dtype and kind of shape, against NumPy."""
