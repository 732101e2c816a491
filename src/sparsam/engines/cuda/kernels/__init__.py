"""The GPU kernels of SAM and the SDNC, in Triton: one program runs one batch element through a whole sequence.

`forward` and `backward` are the two kernels; the other files are what a step is made of. Vectors over heads, words and
units are padded to powers of two (`sparsam.engines.cuda.layout`); the padding holds zeros, and -1 for rows.
"""
