"""Tests of the theory room; a package so that file names may repeat in other rooms."""
