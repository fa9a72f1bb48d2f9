"""Read files of any origin into checked rows; shared by job logs and price lists."""
