"""Copy, associative recall and priority sort: the tasks of figures 2 and 3, over random bits."""
