"""Sources of frames: `patterns`, `images`, `video`, `arrays`, `raw_recording`; `samples` of other signals."""
