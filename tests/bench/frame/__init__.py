"""What every row of the bench stands on.

row.py        what a row is: figures, the levels they are to reach, one run
stand.py      an upstream, a daemon before it, a client; and when a batch began and ended
upstreams.py  nginx with a fixed completion, a mock of a stated latency; ceiling.py measures what each of them can do
yardstick.py  the bare loop that the daemon is compared with; floor.py and row_reader.py, what storing and reading take at least
watch.py      CPU time and memory of processes, over time
poller.py     a second client that asks for a path all the time; caller.py, one that makes interactive calls
database.py   the daemon's database, reached past it; filling.py stores batches there
large.py      inputs as large as the limits let them be
loop_watch.py a plugin that notes how long the daemon's event loop is held
report.py     the page that is made of it all
"""
