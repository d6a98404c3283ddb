"""Tests of the engine and of buffers."""
