"""`dare-reward label` in headless Chromium: 32 prompts of a real model by keyboard only, killed at 20 and resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonl import read_lines, write_lines
from serving import MAIN

pytestmark = pytest.mark.browser

SAMPLE = Path("examples/smollm2_m64.jsonl")  # rollouts of a real model, with its labels
HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
FOCUS = "document.activeElement.closest('#question, .choices, .deeds, .prompt') !== null"


@pytest.fixture
def rollouts(tmp_path):
    """The sample without its labels, which are returned beside its path."""
    groups = read_lines(SAMPLE)
    labels = {g["group_id"]: g.pop("label") for g in groups}
    for g in groups:
        g["rollouts"] = [{k: v for k, v in r.items() if k != "correct"} for r in g["rollouts"]]
    groups[0]["rollouts"][0]["text"] = HOSTILE
    return write_lines(tmp_path / "rollouts.jsonl", groups), labels


@pytest.fixture
def start():
    """Run the command; returns its process and the address of its page."""
    started = []

    def run(path, *words):
        command = [sys.executable, "-c", MAIN, "label", str(path), "--for", "reward", "--port", "0", *words]
        environment = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY"}}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, process.stdout.readline().split()[-1]

    yield run
    for process in started:
        process.kill()
        process.wait(20)
        process.stdout.close()


class Person:
    """Presses keys, and looks at nothing but the page."""

    def __init__(self, browser):
        self.browser = browser

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser.driver).send_keys(*keys).perform()

    @property
    def group_id(self):
        return self.browser.text("#question .note").partition(": ")[2]

    @property
    def answers(self):
        spans = "[...document.querySelectorAll('#question > ol .choice span')]"
        return self.browser.run(f"{spans}.map((e) => e.textContent)")

    def decides(self, label):
        """The key of the answer; without one, the answer in the field."""
        before = self.group_id
        match = [i for i, a in enumerate(self.answers, 1) if a.casefold() == label.casefold()]
        if match:
            self.press(str(match[0]))
        else:
            self.press("a")
            self.press(label, "\ue007")
        self.moves(before)

    def moves(self, before):
        shown = "document.querySelector('#question .note')?.textContent"
        self.browser.until(f"!{shown}.endsWith({json.dumps(': ' + before)})")


def test_thirty_two_prompts_by_keyboard_killed_at_twenty_and_resumed(browser, rollouts, start, capsys, ran):
    path, labels = rollouts
    source = path.read_bytes()
    written = path.with_name("rollouts.labels.jsonl")
    person = Person(browser)
    browser.screen()
    process, address = start(path, "--budget", "32")
    browser.open(address, "#question")
    order = []
    for number in range(20):
        assert browser.run(FOCUS), "keys must work without a click"
        group_id = person.group_id
        order.append(group_id)
        if number == 0:
            assert browser.barriers() == []
            browser.screen(390, "dark")
            assert browser.barriers() == []
            assert browser.run("document.documentElement.scrollWidth") <= 390
            browser.screen()
        if number == 3:
            person.press("c")
            person.moves(group_id)
        elif number == 4:
            person.press("n")
            person.moves(group_id)
            person.press("b")  # a slip: back, and decide again
            browser.until(f"document.querySelector('#question .note').textContent.endsWith({json.dumps(group_id)})")
            person.decides(labels[group_id])
        else:
            person.decides(labels[group_id])
    process.kill()
    process.wait()
    kept = written.read_text()
    assert len({json.loads(line)["group_id"] for line in kept.splitlines()}) == 20
    shown = person.group_id
    person.press("1")
    browser.until("document.getElementById('live').textContent.startsWith('Not saved')")
    assert person.group_id == shown

    process, address = start(path, "--budget", "32")
    browser.open(address)
    browser.says("20 of 32 decided")
    assert written.read_text() == kept
    assert person.group_id == shown
    for _ in range(12):
        order.append(person.group_id)
        person.decides(labels[person.group_id])
    browser.says("All questions are answered")
    assert browser.barriers() == []
    assert browser.run("window.hit") is None
    person.press("f")
    assert process.wait(20) == 0
    assert path.read_bytes() == source
    capsys.readouterr()

    assert ran(["label", str(path), "--for", "reward"], 0).out.split() == order
    found = json.loads(ran(["calibrate", str(path), "--labels", str(written), "--json"], 0, 1).out)["calibration"]
    assert found["prompts"] == 31, "one of them nobody could tell"
    last = {row["group_id"]: row for row in map(json.loads, written.read_text().splitlines())}
    assert last[order[3]]["decision"] == "unknown"
    assert {g for g in order if g != order[3] and last[g]["label"].casefold() != labels[g].casefold()} == set()
    assert [m for m in browser.console() if "ERR_CONNECTION" not in m] == []
