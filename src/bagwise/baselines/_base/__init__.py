"""What the baselines share: checked input, machines that are saved, calibration, solvers."""
