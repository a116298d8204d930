"""`fibatchd run`: a file of requests run against one server, with no daemon and no database.

reading   the input file, checked line by line
journal   what has been answered so far, safe against a crash
runner    the requests run, each retried as a batch's would be
"""
