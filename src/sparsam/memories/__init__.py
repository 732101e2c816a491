"""The memories of SAM, SDNC, NTM, DAM and DNC: interface, state and one step, in plain PyTorch."""
