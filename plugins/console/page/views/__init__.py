"""The views of the page, a module each."""
