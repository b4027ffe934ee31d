"""Sources of frames: `patterns`, `images`, `video`, `arrays`, `numbered`; `samples` of other signals."""
