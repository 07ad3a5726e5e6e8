"""A recording of the calls made on a monitor, and their replay."""
