"""Every number and every experiment of the course, computed."""
