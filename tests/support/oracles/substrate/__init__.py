"""An oracle for the substrate: a model of single tokens, random programs, and what runs them on both."""
