"""The experiments of the paper, one a file: Table 1, Figure 2 and Figure 3."""
