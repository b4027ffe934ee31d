"""What makes shipped files again: the digits network with its images, and the schema of model files."""
