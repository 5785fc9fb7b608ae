"""Page and report in headless Chromium. `scripts/test_pages.py` says where pictures go, if any are kept."""

import io
import json
import os
import shutil
import subprocess
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from jsonl import read_lines, write_lines

from dare_reward.cli import main

pytestmark = pytest.mark.browser

EXAMPLE, LABELLED = Path("examples/arithmetic_m64.jsonl"), Path("examples/smollm2_m64.jsonl")
OPERATED = {"button", "link", "slider", "combobox", "textbox", "DisclosureTriangle"}
TRAINED = "research/results/run-confident-0.jsonl.gz"  # the run log of a training
DOCUMENTS = os.environ.get("DARE_DOCS_PICTURES")
HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'><style>body{display:none}</style>\u202e\x1b"


groups = partial(read_lines, EXAMPLE)


def steps(count, run="a run"):
    """The example's groups again and again, as the steps of a run would come."""
    own = groups()
    for step in range(count):
        few = [{**g, "rollouts": g["rollouts"][step % 8 : 24 + step]} for g in own[step % 8 : step % 8 + 8]]
        yield {"run": run, "step": step, "shadow": ["ttrl", "scrl"], "groups": few}


def post(address, *bodies):
    for body in bodies:
        httpx.post(f"{address}/reward", json=body).raise_for_status()


def opened(browser, serve, shown):
    """The page of a service that has seen four steps, once it shows these elements."""
    address = serve()
    post(address, *steps(4))
    browser.open(address, shown, 5)
    return address


def reported(browser, out, source, *words):
    """The report of a file, in the browser."""
    assert main(["report", str(source), *words, "-o", str(out)]) == 0
    browser.screen()
    browser.open(out.as_uri())


def pictures(browser, name):
    folder = os.environ.get("DARE_TEST_PICTURES")
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            browser.screen(width, scheme)
            time.sleep(0.6)
            wide = browser.run("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} pixels wide on a screen of {width}"
            assert browser.barriers() == []
            if folder:
                (Path(folder) / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture())
    browser.screen()


def draw(browser, name):
    """The pictures of README and docs/report.md: report and page at both widths, light and dark."""
    from PIL import Image

    def place(selector):
        return f"document.querySelector('{selector}').getBoundingClientRect()"

    def part(width, scheme, selector=None, height=1100):
        browser.screen(width, scheme)
        browser.run("document.activeElement.blur()")
        time.sleep(0.6)
        top = browser.run(f"{place(selector)}.top + scrollY - 16") if selector else 0
        return Image.open(io.BytesIO(browser.picture(top, height))).convert("RGB")

    def write(image, file):
        small = image.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(Path(DOCUMENTS) / file, optimize=True)

    if name == "run-report":
        write(part(1280, "light", height=1240), "report.png")
    else:
        browser.screen()
        end = browser.run(f"Math.ceil({place('.verdicts')}.bottom + scrollY)")
        for scheme, file in (("light", "live.png"), ("dark", "live-dark.png")):
            write(part(1280, scheme, height=end + 6).crop((56, 0, 1224, end + 6)), file)
    browser.run(
        "[...document.querySelectorAll('.list button')].some((b) => (b.click(), document.querySelectorAll('.answers .answer').length > 5))"
    )
    if name == "run-report":
        browser.run("[...document.querySelectorAll('.answers .answer button')][2].click()")
        write(part(1280, "dark", ".reader", 800), "report-group-dark.png")
    else:
        both = Image.new("RGB", (800, 1100), "#888888")
        both.paste(part(390, "light"), (0, 0))
        both.paste(part(390, "dark", "#group"), (410, 0))
        write(both, "report-phone.png")
    browser.screen()


def test_report(browser, tmp_path):
    source, run = tmp_path / "run.jsonl", "a run\u202e"
    hostile = {"run": run, "step": 99, "group_id": HOSTILE, "prompt": HOSTILE, "label": "1"}
    strange = {"answer": HOSTILE, "text": HOSTILE, "mean_entropy": 0.1}
    hostile["rollouts"] = [strange, {"answer": "1", "mean_entropy": 0.2}]
    write_lines(source, [*({"run": run, "step": b["step"], **g} for b in steps(10) for g in b["groups"]), hostile])
    out = tmp_path / "run.html"
    reported(browser, out, source, "--shadow", "ttrl,scrl")
    browser.until("document.querySelectorAll('.chart canvas').length > 4")
    assert browser.count(".verdict") == 3
    browser.run("document.querySelectorAll('.list button').forEach((b) => b.click())")
    browser.run("[...document.querySelectorAll('.list button')].find((b) => b.textContent.includes('script')).click()")
    browser.run("document.querySelectorAll('.answers button').forEach((b) => b.click())")
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.says("<img src=x")
    browser.says("\\u202e")
    assert browser.run("document.title").endswith(": a run\\u202e")
    assert browser.run("window.hit") is None
    assert browser.count("img, link[rel=stylesheet]") == 0
    pictures(browser, "report")
    assert browser.console() == []
    assert browser.requests() == [out.as_uri()]


def test_the_page_is_live_and_its_sliders_tell_what_the_service_tells(browser, serve):
    address = serve()
    browser.screen()
    browser.open(address)
    browser.says("No group has been scored yet")
    browser.requests()
    post(address, *steps(10))
    sent = time.monotonic()
    post(address, {"run": "a run", "step": 77, "groups": groups()[:3]})
    browser.says("step 77", ".list .sub")
    print(f"shown after {time.monotonic() - sent:.2f} s")

    browser.run("document.getElementById('knob-alpha').scrollIntoView()")
    name = browser.text("#group h3")
    data = httpx.get(f"{address}/page/data").json()["runs"][0]
    card = next(c for c in data["cards"] if c["group_id"] == name)
    rollouts = [{"answer": a, "mean_entropy": u} for a, u in zip(card["answers"], card["mean_entropies"])]
    rollouts = [{k: v for k, v in r.items() if k == "answer" or v is not None} for r in rollouts]
    params = {}
    for knob, at, value in (("alpha", 0.6, 0.6), ("tau", 0.2, 0.2), ("eps", -0.3, 0.5), ("weight", "exp", "exp")):
        params[knob] = value
        body = {"method": "dare", "params": params, "groups": [{"kind": "exact", "rollouts": rollouts}]}
        (found,) = httpx.post(f"{address}/reward", json=body, headers={"Dare-Record": "no"}).json()["groups"]
        told = json.dumps([[s["answer"], s["reward"]] for s in found["support"]])
        browser.run(
            f"((k) => {{ k.value = {json.dumps(at)}; k.dispatchEvent(new Event('input')); }})(document.getElementById('knob-{knob}'))"
        )
        browser.until(
            f"JSON.stringify(JSON.parse(document.querySelector('[data-rewards]')?.dataset.rewards ?? '0')) === JSON.stringify({told})"
        )

    browser.run("(document.querySelector('.try').nextElementSibling.open = true)")
    methods = browser.until("document.querySelector('.try').nextElementSibling.querySelector('table')?.textContent")
    assert "ttrl" in methods
    assert "empo" in methods
    pictures(browser, "page")
    assert browser.console() == []
    asked = {url.split("/page")[0].rstrip("/") for url in browser.requests()}
    assert asked <= {address, f"{address}/reward", f"{address}/methods"}
    assert httpx.get(f"{address}/page/data").json()["runs"][0]["groups"] == data["groups"]  # nothing of it was recorded


def test_a_run_log_is_the_same_in_report_and_page(browser, serve, tmp_path):
    log, out = tmp_path / "log" / "confident-0", tmp_path / "run.html"
    log.mkdir(parents=True)
    shutil.copy(TRAINED, log / "20260301T101500123Z-1-00000000-000000.jsonl.gz")
    assert main(["report", str(log), "-o", str(out)]) == 0
    told = []
    for name, url in (("run-report", out.as_uri()), ("run-page", serve(DARE_RUN_LOG=str(log.parent)))):
        browser.screen()
        browser.open(url, ".chart canvas", 5)
        browser.says("400 groups", ".facts")  # the page reads on meanwhile
        told.append(" ".join(map(browser.text, (".headline", ".verdicts"))))
        pictures(browser, name)
        if DOCUMENTS:
            draw(browser, name)
        assert browser.console() == []
    assert told[0] == told[1]
    assert told[0].startswith("Accuracy fell")


def test_what_the_reader_has_open_stays_open(browser, serve):
    address = opened(browser, serve, ".list button")
    browser.run("document.querySelectorAll('.list button')[3].click()")
    name = browser.text("#group h3")
    browser.click("#table-agreement")
    post(address, {"run": "a run", "step": 50, "groups": groups()[:1]})
    browser.says("step 50", ".list .sub")
    assert browser.text("#group h3") == name
    assert browser.run("document.activeElement.id") == "group"
    assert browser.run("document.querySelector('#table-agreement').parentElement.open")
    assert browser.text("[aria-current=true] .id") == name


def test_three_runs_stand_beside_each_other(browser, serve):
    """The worst first; another run over every chart; a chart on the first screen of a phone."""
    log = Path(__file__).resolve().parents[2] / TRAINED
    address = serve()
    post(address, *steps(9, "one"), *steps(9, "two"))
    lines = read_lines(log)
    keys = ("prompt", "label", "kind")
    for step in range(50):
        groups = [
            {**{k: x[k] for k in keys if x.get(k) is not None}, "group_id": x["group_id"], "rollouts": [
                {"answer": a, "mean_entropy": r["mean_entropy"], "num_tokens": r["num_tokens"]}
                for a, r in zip(x["reply"]["answers"], x["rollouts"])]}
            for x in lines if x["step"] == step
        ]  # fmt: skip
        post(address, {"run": "fell", "step": step, "groups": groups})
    post(address, {**next(steps(1, "one")), "step": 9})  # the last one
    browser.open(address, ".chart canvas", 5)
    browser.until("document.querySelectorAll('.rail li').length === 3")
    rows = browser.run("[...document.querySelectorAll('.rail button')].map((b) => b.innerText.split('\\n'))")
    assert rows[0][:2] == ["fell", "accuracy falls"]
    assert [row[0] for row in rows[1:]] == ["one", "two"]
    assert "dare · 50 steps" in rows[0]
    assert browser.count(".rail polyline") == 3
    assert browser.text("h1") == "fell"
    assert browser.count(".tile polyline") > 8

    assert browser.count(".chart") == 6
    browser.click("#more-charts")
    browser.until("document.querySelectorAll('.chart canvas').length > 8")
    browser.click("#more-charts")

    for other in (1, 2):
        browser.click(f"#over-{other}")
    names = browser.run("[...document.querySelectorAll('.chart.first .legend button')].map((b) => b.textContent)")
    assert [name.rstrip("0123456789.–") for name in names] == ["fell", "one", "two"]
    assert browser.run("document.getElementById('choice-truth').value") == "pass@1"
    browser.run(
        "((s) => { s.value = 'majority ratio'; s.dispatchEvent(new Event('change')); })(document.getElementById('choice-truth'))"
    )
    assert browser.run("document.getElementById('choice-truth').value") == "majority ratio"
    browser.click(".legend button")
    assert browser.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    browser.click(".legend button")
    pictures(browser, "three")
    for other in (1, 2):
        browser.click(f"#over-{other}")

    browser.screen(390)
    browser.until("document.querySelector('.chart.first .plot').getBoundingClientRect().bottom + scrollY < 844")
    browser.screen()
    browser.run("((b) => { b.focus(); b.click(); })(document.getElementById('run-1'))")
    assert browser.text("h1") == "one"
    assert browser.run("document.activeElement.id") == "run-1"
    assert browser.console() == []


def shown_whole(browser, shown, card):
    """What `calibrate` shows stands in the page letter for letter, its figures too."""
    text = browser.run(f"document.querySelector('.headline, {card}').closest('.content').innerText").replace("\t", " ")
    text = " ".join(text.split())
    for said in (shown["headline"], shown["why"], *shown["notes"], shown["line"], *map(" ".join, shown["rows"])):
        assert " ".join(said.split()) in text


def test_the_live_page_shows_what_calibrate_shows(browser, serve, tmp_path, ran):
    """A run whose labels decide: the card, opened, has every figure of the terminal."""
    address = serve(DARE_RUN_LOG=str(tmp_path / "log"))
    own = read_lines(LABELLED)
    for step in range(3):
        few = [{**g, "rollouts": g["rollouts"][8 * step : 8 * step + 16]} for g in own[:40]]
        post(address, {"run": "r", "step": step, "groups": few})
    browser.open(address, "#rests")
    browser.says("120 groups", ".facts")
    browser.click("#rests")
    browser.until("document.querySelector('.verdict .command')")
    shown = json.loads(ran(["calibrate", str(tmp_path / "log"), "--json"]).out)["shown"]
    browser.says(shown["notes"][0])
    shown_whole(browser, shown, ".verdict")
    assert browser.console() == []


def test_the_report_of_a_labelled_file(browser, tmp_path, ran):
    reported(browser, tmp_path / "labelled.html", LABELLED, "--shadow", "scrl")
    browser.until("document.querySelector('.finding .command')")
    assert browser.text(".headline").startswith("Use the plain vote. Entropy is")
    assert browser.count(".said li") == 2
    shown_whole(browser, json.loads(ran(["calibrate", str(LABELLED), "--json"], 0, 1).out)["shown"], ".finding")
    pictures(browser, "labelled")
    assert browser.console() == []


def test_rollouts_without_an_answer_are_shown_with_their_reward(browser, tmp_path):
    rollouts = [{"answer": a, "mean_entropy": 0.1} for a in ("1", "1", "2", None)]
    source = write_lines(tmp_path / "silent.jsonl", [{"rollouts": rollouts}])
    reported(browser, tmp_path / "silent.html", source, "-m", "scrl")
    assert browser.until("document.querySelector('.answers .silent [data-name=reward]').textContent") == "-1.000"


def test_the_empty_page_has_whole_commands_that_can_be_copied(browser, serve):
    browser.open(serve(), ".command", 3)
    assert browser.count(".command") == 3
    pictures(browser, "empty")
    assert browser.run("[...document.querySelectorAll('.command pre')].every((e) => e.scrollWidth <= e.clientWidth)")
    browser.click(".command button")
    browser.until("['Copied', 'Selected'].includes(document.querySelector('.command button').textContent)")
    shell = browser.text(".command code")
    subprocess.run(["bash", "-c", f"{shell} -sf"], check=True, capture_output=True)
    browser.until("document.querySelector('.headline')")
    assert "Not decided: label 32 more" in browser.text("body")


def test_the_token_leaves_the_address_bar(browser, serve):
    address = serve(DARE_TOKEN="s3cret")
    browser.open(address, "#token")
    browser.open(f"{address}/?token=s3cret")
    browser.says("No group has been scored yet")
    assert browser.run("location.href") == f"{address}/"
    browser.driver.refresh()
    browser.says("No group has been scored yet")
    browser.driver.execute_script("sessionStorage.clear()")
    browser.console()


def test_the_keyboard_reaches_groups_and_sliders(browser, serve):
    from selenium.webdriver import ActionChains, Keys

    def press(key):
        ActionChains(browser.driver).send_keys(key).perform()

    opened(browser, serve, ".list button")
    seen = set()
    for _ in range(120):
        press(Keys.TAB)
        seen.add(browser.run("document.activeElement.id || document.activeElement.parentElement?.className || ''"))
        if browser.run("document.activeElement.id") == "knob-alpha":
            break
    else:
        pytest.fail(f"Tab never came to the slider, but to {sorted(seen)}")
    before = float(browser.run("document.activeElement.value"))
    press(Keys.ARROW_RIGHT)
    assert float(browser.run("document.activeElement.value")) == pytest.approx(before + 0.01)
    browser.until("document.querySelector('[data-rewards]')")


def test_a_screen_reader_finds_headings_names_and_numbers(browser, serve):
    """Headings without a gap, a name for everything that can be operated, and a table behind every chart."""
    opened(browser, serve, ".chart canvas")
    tree = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nodes = [(n.get("role", {}).get("value"), n) for n in tree if not n.get("ignored")]
    operated = [(role, n.get("name", {}).get("value", "").strip()) for role, n in nodes if role in OPERATED]
    assert len(operated) > 20
    assert [role for role, name in operated if not name] == []
    headings = [{p["name"]: p["value"]["value"] for p in n["properties"]} for role, n in nodes if role == "heading"]
    levels = [heading["level"] for heading in headings if "level" in heading]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.count(".chart:not(:has(details summary))") == 0
