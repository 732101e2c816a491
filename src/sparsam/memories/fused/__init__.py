"""Operations of the dense memories with a backward pass of their own: the numbers of the plain ones, faster."""
