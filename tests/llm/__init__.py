"""Language models: small random ones of each family against NumPy, tokenisers, sampling, chats."""
