"""Graph texts: lines, tags, sections and subgraphs."""
