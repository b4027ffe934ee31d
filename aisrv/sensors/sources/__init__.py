"""Sources of frames: `patterns`, `images`, `video`, `arrays`, `numbered` raw ones; `samples` of other signals."""
