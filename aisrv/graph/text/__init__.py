"""Graph texts: lines, tags, sections and subgraphs, and the messages of errors."""
