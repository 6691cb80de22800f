"""Where processes run, and how one that serves says where it is."""
