"""Recordings and their page."""
