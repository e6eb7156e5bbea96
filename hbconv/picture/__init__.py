"""Pictures of graphs: as SVG, and as a page with the details of each node."""
