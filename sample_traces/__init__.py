"""Small synthetic traces in their native formats, made by ``make_samples`` from one seed."""
