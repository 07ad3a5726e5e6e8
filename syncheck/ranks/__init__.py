"""Jobs of several processes: what each tells the others, and what their findings are together. Free of torch.

`record` writes one part a process into a folder, `parts` reads them, `compare` finds where the ranks of a group
disagree, `merging` makes one report of all parts, `watch` ends a job that hangs.
"""
