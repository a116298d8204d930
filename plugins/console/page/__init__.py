"""What the browser gets: the page, its stylesheet and its modules."""
