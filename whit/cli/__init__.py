"""The command line: `python -m whit [COMMAND]`.

`main` holds the table of commands and everything that they share: help, wrong usage, exit codes, --json, closed pipes,
Ctrl-C. Each command is a module that answers with an `Answer`. Nothing else in whit imports this folder.
"""
