"""What people look at: numbers (tables), then charts (each a function of a table), then one self-contained page."""
