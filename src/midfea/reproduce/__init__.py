"""The paper's experiments on the paper's data: protocols, runs, figures and measured claims."""
