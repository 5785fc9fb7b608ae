"""The Qwen protocol from end to end, with stand-ins for vLLM and the trainer, and its table."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("qwen_table", ROOT / "research" / "scripts" / "qwen_table.py")
qwen_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(qwen_table)

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "\\\\boxed{2}" if "adapted" in sys.argv[2] else "\\\\boxed{3}"
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        data = json.dumps({"choices": [choice] * body["n"]}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers()
        self.wfile.write(data)
    def log_message(self, *_): pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
VLLM = """#!/bin/bash
# vllm serve MODEL --host H --port P ...
exec "$PYTHON" "$STUBS/server.py" "$6" "$([ -e "$2/adapted" ] && echo adapted || echo raw)"
"""
REWARD = """#!/bin/bash
echo "$*" >>"$STUBS/log"
case $1 in
serve) exec "$PYTHON" "$STUBS/server.py" "$3" raw ;;
data) mkdir -p "$7"; touch "$7/$3.jsonl" ;;
train) mkdir -p "$9/$3/model"; touch "$9/$3/model/adapted" ;;
*) exec "$PYTHON" -c 'import sys; from dare_reward.cli import main; sys.exit(main())' "$@" ;;
esac
"""


def two_free_ports():
    """A port that is free, as is the next one, below those that the system gives to connections."""
    for port in range(21000 + os.getpid() % 9000, 32000):
        try:
            for number in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        return port
    raise RuntimeError("no two free ports")


@pytest.mark.skipif(shutil.which("curl") is None, reason="the script asks with curl")
def test_the_protocol_runs_and_resumes(tmp_path):
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "server.py").write_text(SERVER)
    python = '#!/bin/bash\nexec "$PYTHON" "$@"\n'
    for name, text in (("vllm", VLLM), ("dare-reward", REWARD), ("python3", python)):
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    (tmp_path / "aime24.jsonl").write_text(json.dumps({"problem": "1 + 1?", "answer": "2"}) + "\n")
    environment = {
        **os.environ,
        "PATH": f"{stubs}{os.pathsep}{os.environ['PATH']}",
        "STUBS": str(stubs),
        "PYTHON": sys.executable,
        "OUT": str(tmp_path / "out"),
        "SETS": "aime24",
        "ADAPT": "aime24",
        "ARMS": "dare",
        "SAMPLES": "2",
        "PORT": str(two_free_ports()),
        "WAIT": "60",
    }
    script = [str(ROOT / "research" / "scripts" / "qwen_protocol.sh"), str(tmp_path)]
    first = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "| ours: raw | not run | not run | 0.0 [0.0, 0.0] |" in first.stdout
    assert "| ours: dare-aime24 | not run | not run | 100.0 [100.0, 100.0] |" in first.stdout
    asked = (stubs / "log").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["data", "evaluate", "serve", "train", "evaluate"]
    again = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (stubs / "log").read_text().splitlines() == asked


def test_a_dry_run_runs_nothing(tmp_path):
    for name in ("math-500", "aime24", "amc", "mmlu-pro", "gpqa"):
        (tmp_path / f"{name}.jsonl").touch()
    environment = {**os.environ, "DRY_RUN": "1", "OUT": str(tmp_path / "out")}
    found = subprocess.run(
        [str(ROOT / "research" / "scripts" / "qwen_protocol.sh"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0
    assert found.stdout.count("dare-reward evaluate") == 7
    assert found.stdout.count("dare-reward train") == 6
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_sets_are_named(tmp_path):
    found = subprocess.run(
        [str(ROOT / "research" / "scripts" / "qwen_protocol.sh"), str(tmp_path)], capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "math-500.jsonl is missing" in found.stderr


def test_the_committed_table_is_empty_and_says_so():
    text = qwen_table.DOCUMENT.read_text()
    assert qwen_table.renew(text, None) == text
    assert text.count("| not run") == 5 * 7
    assert "Status: not run" in text


@pytest.mark.parametrize("arm", ["ttrl", "dare"])
@pytest.mark.parametrize("adapted", qwen_table.ADAPTED)
def test_the_trainer_knows_the_recipes_and_puts_the_model_where_the_script_looks(tmp_path, capsys, adapted, arm):
    from dare_reward.cli import main

    recipe = f"{adapted}-qwen2.5-math-1.5b" + ("" if arm == "dare" else f"-{arm}")
    arguments = ["train", "--recipe", recipe, "--reward-url", "http://127.0.0.1:18101", "--data", str(tmp_path)]
    assert main([*arguments, "--out", "OUT/train", "--model", "M", "--set", "train.seed=7", "--dry-run"]) == 0
    words = capsys.readouterr().out.replace("\\\n", " ").split()
    assert words[words.index("--ckpt.output_dir") + 1] == f"OUT/train/{recipe}/model"
    assert words[words.index("--train.seed") + 1] == "7"
    assert words[words.index("--actor.model_name_or_path") + 1] == "M"
