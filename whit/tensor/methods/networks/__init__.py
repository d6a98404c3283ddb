"""What networks are made of: activations, attention, losses."""
