"""A recording as a page in a browser: `python -m whit viz FILE --serve`, or `--html OUT.html` for one file to mail.

documents    what the page asks for, by name, as JSON: "overview", "kernel/3", "graph/12", "steps/k3.2/0"
rows         nodes of graphs as rows
replay       the rewrites of a pass, as changes of one graph
activity     time and memory
serve        a server for this machine alone
export       all of it in one file
static/      the page: plain JavaScript modules and CSS, nothing from elsewhere

The page computes layouts and draws; it knows traces only through these documents, so the server and the exported file
show the same. Everything in a document may come from a stranger: the page shows it as text, never as HTML.
"""
