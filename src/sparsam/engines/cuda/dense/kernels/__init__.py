"""The GPU kernels of NTM, DAM and DNC, in Triton: one program runs one batch element through a whole sequence.

`forward` and `backward` are the two kernels of a sequence; each model's step is a file.
"""
