"""Training on the images of a workspace, in a process of its own."""
