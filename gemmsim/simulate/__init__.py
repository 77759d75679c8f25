"""What closed forms cannot see: launches walked block by block. Sees problems, families, chips and the model alone."""
