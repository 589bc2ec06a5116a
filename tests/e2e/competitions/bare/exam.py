"""An exam program that waits as long as there is a file `exam` in the folder that it is told of, and says when it begins."""

import json
import sys
import time
from pathlib import Path

HELD = Path("@HELD@")

HELD.joinpath("begun").touch()
while HELD.joinpath("exam").exists():
    time.sleep(0.05)
if sys.argv[1] == "questions":
    for number in range(3):
        question = {"id": f"q{number}", "messages": [{"role": "user", "content": "?"}], "max_tokens": 1}
        sys.stdout.write(json.dumps(question) + "\n")
else:
    sys.stdout.write(json.dumps({"n": 3, "correct": 0}) + "\n")
