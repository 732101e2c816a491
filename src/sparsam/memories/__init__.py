"""The memories: what SAM, SDNC, NTM, DAM and DNC keep, ask for and do at one step, in plain PyTorch."""
