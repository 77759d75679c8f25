"""The room with the GPU: compile, check, time, counters. It imports no model and no ranking: nothing measured depends on a prediction."""
