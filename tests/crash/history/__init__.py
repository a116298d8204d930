"""Random work on a real daemon while things around it fail, and a judge of what was seen.

stand     the processes: daemon, upstream, database, webhook receiver
upstream  a model server that writes down what it was asked, and fails at random
launch    the daemon's launcher: what a test may do to its disk, its clock, its limits
faults    what is done to the stand
work      bodies of batches of every kind, drawn from a seed
client    calls of the API, each written down
driver    accounts that create, cancel, delete, revoke, ask and read, all at random
reading   what is there in the end: every batch, every result, the rows of the database
record    the history, a file of JSON lines
checker   the invariants: a pure function of a history
"""
