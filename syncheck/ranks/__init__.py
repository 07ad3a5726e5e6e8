"""Jobs of several processes: what each reports to the others, and their merged findings. Free of torch.

`record` writes one part a process into a folder, `parts` reads them, `compare` finds where the ranks of a group
disagree, `merging` makes one report of all parts, `watch` ends a job that hangs.
"""
