"""NTM, DAM and DNC on a GPU: a whole sequence by kernels where a program can hold the memory, else as CUDA graphs."""
