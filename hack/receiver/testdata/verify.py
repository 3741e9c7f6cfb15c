"""Imports a program of docs/webhooks.md and asks it whether it believes each case, a line of JSON on standard input.

Its clock stands at the given time, in milliseconds. It prints a line for each: what the program would print.
"""

import base64
import importlib.util
import json
import sys
import time

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
time.time = lambda: int(sys.argv[2]) / 1000

for line in sys.stdin:
    case = json.loads(line)
    try:
        program.verify(case["header"], base64.b64decode(case["body"]), case["secret"])
        print("verified")
    except ValueError as refused:
        print(f"refused: {refused}")
