"""Page and report in headless Chromium. `scripts/test_pages.py` says where pictures go, if any are kept."""

import gzip
import io
import json
import os
import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from dare_reward.cli import main

pytestmark = pytest.mark.browser

EXAMPLE = "examples/arithmetic_m64.jsonl"
TRAINED = "research/results/run-confident-0.jsonl.gz"  # the run log of a training
DOCUMENTS = os.environ.get("DARE_DOCS_PICTURES")
HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'><style>body{display:none}</style>\u202e\x1b"
TEXT = "document.body.textContent"


def groups():
    return [json.loads(line) for line in Path(EXAMPLE).read_text().splitlines()]


def steps(count, run="a run"):
    """The example's groups again and again, as the steps of a run would come."""
    own = groups()
    for step in range(count):
        few = [{**g, "rollouts": g["rollouts"][step % 8 : 24 + step]} for g in own[step % 8 : step % 8 + 8]]
        yield {"run": run, "step": step, "shadow": ["ttrl", "scrl"], "groups": few}


def opened(browser, serve, shown):
    """The page of a service that has seen four steps, once it shows these elements."""
    address = serve()
    for body in steps(4):
        httpx.post(f"{address}/reward", json=body).raise_for_status()
    browser.driver.get(address)
    browser.until(f"document.querySelectorAll('{shown}').length > 4")
    return address


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

    def part(width, scheme, selector=None, height=1100):
        browser.screen(width, scheme)
        browser.run("document.activeElement.blur()")
        time.sleep(0.6)
        top = (
            browser.run(f"document.querySelector('{selector}').getBoundingClientRect().top + scrollY - 16")
            if selector
            else 0
        )
        return Image.open(io.BytesIO(browser.picture(top, height))).convert("RGB")

    def write(image, file):
        image.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            Path(DOCUMENTS) / file, optimize=True
        )

    if name == "run-report":
        write(part(1280, "light", height=1240), "report.png")
    else:
        browser.screen()
        end = browser.run("Math.ceil(document.querySelector('.verdicts').getBoundingClientRect().bottom + scrollY)")
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
    hostile["rollouts"] = [
        {"answer": HOSTILE, "text": HOSTILE, "mean_entropy": 0.1},
        {"answer": "1", "mean_entropy": 0.2},
    ]
    rows = [{"run": run, "step": b["step"], **g} for b in steps(10) for g in b["groups"]]
    source.write_text("".join(json.dumps(row) + "\n" for row in [*rows, hostile]))
    out = tmp_path / "run.html"
    assert main(["report", str(source), "--shadow", "ttrl,scrl", "-o", str(out)]) == 0
    browser.screen()
    browser.driver.get(out.as_uri())
    browser.until("document.querySelectorAll('.chart canvas').length > 4")
    assert browser.run("document.querySelectorAll('.verdict').length") == 3
    browser.run("document.querySelectorAll('.list button').forEach((b) => b.click())")
    browser.run("[...document.querySelectorAll('.list button')].find((b) => b.textContent.includes('script')).click()")
    browser.run("document.querySelectorAll('.answers button').forEach((b) => b.click())")
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert browser.until(f"{TEXT}.includes('<img src=x')")
    assert browser.until(f"{TEXT}.includes('\\\\u202e')")
    assert browser.run("document.title").endswith(": a run\\u202e")
    assert browser.run("window.hit") is None
    assert browser.run("document.querySelectorAll('img, link[rel=stylesheet]').length") == 0
    pictures(browser, "report")
    assert browser.console() == []
    assert browser.requests() == [out.as_uri()]


def test_the_page_is_live_and_its_sliders_tell_what_the_service_tells(browser, serve):
    address = serve()
    browser.screen()
    browser.driver.get(address)
    browser.until(f"{TEXT}.includes('No group has been scored yet')")
    browser.requests()
    for body in steps(10):
        httpx.post(f"{address}/reward", json=body).raise_for_status()
    sent = time.monotonic()
    httpx.post(f"{address}/reward", json={"run": "a run", "step": 77, "groups": groups()[:3]}).raise_for_status()
    browser.until("[...document.querySelectorAll('.list .sub')].some((e) => e.textContent.includes('step 77'))")
    print(f"shown after {time.monotonic() - sent:.2f} s")

    browser.run("document.getElementById('knob-alpha').scrollIntoView()")
    name = browser.run("document.querySelector('#group h3').textContent")
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
    assert {url.split("/page")[0].rstrip("/") for url in browser.requests()} <= {
        address,
        f"{address}/reward",
        f"{address}/methods",
    }
    assert httpx.get(f"{address}/page/data").json()["runs"][0]["groups"] == data["groups"]  # nothing of it was recorded


def test_a_run_log_is_the_same_in_report_and_page(browser, serve, tmp_path):
    log, out = tmp_path / "log" / "confident-0", tmp_path / "run.html"
    log.mkdir(parents=True)
    shutil.copy(TRAINED, log / "20260301T101500123Z-1-00000000-000000.jsonl.gz")
    assert main(["report", str(log), "-o", str(out)]) == 0
    alone(browser)
    told = []
    for name, url in (("run-report", out.as_uri()), ("run-page", serve(DARE_RUN_LOG=str(log.parent)))):
        browser.screen()
        browser.driver.get(url)
        browser.until("document.querySelectorAll('.chart canvas').length > 4")
        browser.until(
            "document.querySelector('.facts').textContent.includes('400 groups')"
        )  # the page reads on meanwhile
        told.append(
            browser.run("['.headline', '.verdicts'].map((c) => document.querySelector(c).textContent).join(' ')")
        )
        pictures(browser, name)
        if DOCUMENTS:
            draw(browser, name)
        assert browser.console() == []
    assert told[0] == told[1]
    assert told[0].startswith("Accuracy fell")


def test_what_the_reader_has_open_stays_open(browser, serve):
    address = opened(browser, serve, ".list button")
    browser.run("document.querySelectorAll('.list button')[3].click()")
    name = browser.run("document.querySelector('#group h3').textContent")
    browser.run("document.getElementById('table-agreement').click()")
    httpx.post(f"{address}/reward", json={"run": "a run", "step": 50, "groups": groups()[:1]}).raise_for_status()
    browser.until("[...document.querySelectorAll('.list .sub')].some((e) => e.textContent.includes('step 50'))")
    assert browser.run("document.querySelector('#group h3').textContent") == name
    assert browser.run("document.activeElement.id") == "group"
    assert browser.run("document.querySelector('#table-agreement').parentElement.open")
    assert browser.run("document.querySelector('[aria-current=true] .id').textContent") == name


def alone(browser):
    """No page of an earlier test asks its service any more."""
    browser.driver.get("about:blank")
    browser.console()
    browser.screen()


def test_three_runs_stand_beside_each_other(browser, serve):
    """The worst first; another run over every chart; a chart on the first screen of a phone."""
    log = Path(__file__).resolve().parents[2] / TRAINED
    address = serve()
    for run in ("one", "two"):
        for body in steps(9, run):
            httpx.post(f"{address}/reward", json=body).raise_for_status()
    lines = [json.loads(x) for x in gzip.decompress(log.read_bytes()).splitlines()]
    keys = ("prompt", "label", "kind")
    for step in range(50):
        groups = [
            {**{k: x[k] for k in keys if x.get(k) is not None}, "group_id": x["group_id"], "rollouts": [
                {"answer": a, "mean_entropy": r["mean_entropy"], "num_tokens": r["num_tokens"]}
                for a, r in zip(x["reply"]["answers"], x["rollouts"])]}
            for x in lines if x["step"] == step
        ]  # fmt: skip
        httpx.post(f"{address}/reward", json={"run": "fell", "step": step, "groups": groups}).raise_for_status()
    httpx.post(f"{address}/reward", json={**next(steps(1, "one")), "step": 9}).raise_for_status()  # the last one
    alone(browser)
    browser.driver.get(address)
    browser.until(
        "document.querySelectorAll('.rail li').length === 3 && document.querySelectorAll('.chart canvas').length > 4"
    )
    rows = browser.run("[...document.querySelectorAll('.rail button')].map((b) => b.innerText.split('\\n'))")
    assert rows[0][:2] == ["fell", "accuracy falls"]
    assert [row[0] for row in rows[1:]] == ["one", "two"]
    assert "dare · 50 steps" in rows[0]
    assert browser.run("document.querySelectorAll('.rail polyline').length") == 3
    assert browser.run("document.querySelector('h1').textContent") == "fell"
    assert browser.run("document.querySelectorAll('.tile polyline').length") > 8

    assert browser.run("document.querySelectorAll('.chart').length") == 6
    browser.run("document.getElementById('more-charts').click()")
    browser.until("document.querySelectorAll('.chart canvas').length > 8")
    browser.run("document.getElementById('more-charts').click()")

    for other in (1, 2):
        browser.run(f"document.getElementById('over-{other}').click()")
    names = browser.run("[...document.querySelectorAll('.chart.first .legend button')].map((b) => b.textContent)")
    assert [name.rstrip("0123456789.–") for name in names] == ["fell", "one", "two"]
    assert browser.run("document.getElementById('choice-truth').value") == "pass@1"
    browser.run(
        "((s) => { s.value = 'majority ratio'; s.dispatchEvent(new Event('change')); })(document.getElementById('choice-truth'))"
    )
    assert browser.run("document.getElementById('choice-truth').value") == "majority ratio"
    browser.run("document.querySelector('.legend button').click()")
    assert browser.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    browser.run("document.querySelector('.legend button').click()")
    pictures(browser, "three")
    for other in (1, 2):
        browser.run(f"document.getElementById('over-{other}').click()")

    browser.screen(390)
    browser.until("document.querySelector('.chart.first .plot').getBoundingClientRect().bottom + scrollY < 844")
    browser.screen()
    browser.run("((b) => { b.focus(); b.click(); })(document.getElementById('run-1'))")
    assert browser.run("document.querySelector('h1').textContent") == "one"
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
    own = [json.loads(x) for x in Path("examples/smollm2_m64.jsonl").read_text().splitlines()]
    for step in range(3):
        few = [{**g, "rollouts": g["rollouts"][8 * step : 8 * step + 16]} for g in own[:40]]
        httpx.post(f"{address}/reward", json={"run": "r", "step": step, "groups": few}).raise_for_status()
    alone(browser)
    browser.driver.get(address)
    browser.until(
        "document.getElementById('rests') && document.querySelector('.facts').textContent.includes('120 groups')"
    )
    browser.run("document.getElementById('rests').click()")
    browser.until("document.querySelector('.verdict .command')")
    shown = json.loads(ran(["calibrate", str(tmp_path / "log"), "--json"]).out)["shown"]
    browser.until(f"{TEXT}.includes({json.dumps(shown['notes'][0])})")
    shown_whole(browser, shown, ".verdict")
    assert browser.console() == []


def test_the_report_of_a_labelled_file(browser, tmp_path, capsys):
    out = tmp_path / "labelled.html"
    assert main(["report", "examples/smollm2_m64.jsonl", "--shadow", "scrl", "-o", str(out)]) == 0
    alone(browser)
    browser.driver.get(out.as_uri())
    browser.until("document.querySelector('.finding .command')")
    assert browser.run("document.querySelector('.headline').textContent").startswith("Use the plain vote. Entropy is")
    assert browser.run("document.querySelectorAll('.said li').length") == 2
    assert main(["calibrate", "examples/smollm2_m64.jsonl", "--json"]) in {0, 1}
    shown_whole(browser, json.loads(capsys.readouterr().out)["shown"], ".finding")
    pictures(browser, "labelled")
    assert browser.console() == []


def test_rollouts_without_an_answer_are_shown_with_their_reward(browser, tmp_path):
    source, out = tmp_path / "silent.jsonl", tmp_path / "silent.html"
    source.write_text(json.dumps({"rollouts": [{"answer": a, "mean_entropy": 0.1} for a in ("1", "1", "2", None)]}))
    assert main(["report", str(source), "-m", "scrl", "-o", str(out)]) == 0
    browser.driver.get(out.as_uri())
    assert browser.until("document.querySelector('.answers .silent [data-name=reward]').textContent") == "-1.000"


def test_the_empty_page_has_whole_commands_that_can_be_copied(browser, serve):
    address = serve()
    browser.driver.get(address)
    browser.until("document.querySelectorAll('.command').length === 3")
    pictures(browser, "empty")
    assert browser.run("[...document.querySelectorAll('.command pre')].every((e) => e.scrollWidth <= e.clientWidth)")
    browser.run("document.querySelector('.command button').click()")
    assert browser.until(
        "['Copied', 'Selected'].find((t) => document.querySelector('.command button').textContent === t)"
    )
    shell = browser.run("document.querySelector('.command code').textContent")
    subprocess.run(["bash", "-c", f"{shell} -sf"], check=True, capture_output=True)
    browser.until("document.querySelector('.headline')")
    assert "Not decided: label 32 more" in browser.run(TEXT)


def test_the_token_leaves_the_address_bar(browser, serve):
    address = serve(DARE_TOKEN="s3cret")
    browser.driver.get(address)
    browser.until("document.getElementById('token')")
    browser.driver.get(f"{address}/?token=s3cret")
    browser.until(f"{TEXT}.includes('No group has been scored yet')")
    assert browser.run("location.href") == f"{address}/"
    browser.driver.refresh()
    browser.until(f"{TEXT}.includes('No group has been scored yet')")
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
    role = {n["nodeId"]: n.get("role", {}).get("value") for n in tree if not n.get("ignored")}
    name = {n["nodeId"]: n.get("name", {}).get("value", "").strip() for n in tree if not n.get("ignored")}
    operated = [
        i for i, r in role.items() if r in {"button", "link", "slider", "combobox", "textbox", "DisclosureTriangle"}
    ]
    assert len(operated) > 20
    assert [role[i] for i in operated if not name[i]] == []
    levels = [
        p["value"]["value"]
        for n in tree
        if not n.get("ignored") and role[n["nodeId"]] == "heading"
        for p in n["properties"]
        if p["name"] == "level"
    ]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert (
        browser.run(
            "[...document.querySelectorAll('.chart')].filter((c) => !c.querySelector('details summary')).length"
        )
        == 0
    )
