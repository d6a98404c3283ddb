"""The pages say what is true: their examples run, and generated ones are up to date."""
