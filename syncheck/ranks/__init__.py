"""Jobs of several processes: the record of each process, and the merged findings. Does not import torch.

`writer` writes one part per process into a folder, `reader` reads the parts, `compare` finds where the ranks of a group
disagree, `merging` makes one report of all parts, `watchdog` ends a job that hangs.
"""
