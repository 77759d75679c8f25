"""The event-level twin of the model: what a launch does block by block. Time of a block still comes from the solver."""
