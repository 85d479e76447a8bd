"""Local clusters to train and test on."""
