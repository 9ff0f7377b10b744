"""The objectives, one a file; see `config.objectives.OBJECTIVES`."""
