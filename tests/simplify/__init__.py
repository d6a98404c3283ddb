"""Tests of the index algebra. A package, so that its files may be named like those of other folders."""
