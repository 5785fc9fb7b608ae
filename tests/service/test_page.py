"""The page: what it serves to whom, what it knows, and that scoring pays only for an append."""

import asyncio
import json

import pytest

from dare_service.page import routes
from dare_service.page.routes import _events

GROUP = {
    "group_id": "g",
    "rollouts": [{"answer": "4", "mean_entropy": 0.2}] * 2 + [{"answer": "5", "mean_entropy": 0.9}],
}
BODY = {"run": "first", "step": 3, "groups": [GROUP]}


@pytest.fixture
def page(make_service):
    return make_service(page="on")


def shown(page, **headers):
    assert page.state.recorder.flush()
    found = page.get("/page/data", headers=headers)
    assert found.status_code == 200
    return json.loads(found.content)["runs"]


def test_the_page_and_its_parts(page):
    found = page.get("/")
    assert found.status_code == 200
    policy = found.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    for name in ("report.js", "live.js", "report.css", "uplot.js", "uplot.css"):
        assert f"page/{name}?" in found.text
        part = page.get(f"/page/{name}")
        assert part.status_code == 200
        assert part.headers["content-type"].startswith("text/")
    assert "<script>" not in found.text
    for name in ("shell.html", "LICENSE.uplot", "nothing", "..%2Freport.js"):
        assert page.get(f"/page/{name}").status_code == 404


def test_what_is_scored_is_shown(page):
    assert page.post(BODY).status_code == 200
    (run,) = shown(page)
    assert (run["run"], run["columns"]["step"], run["groups"], run["rollouts"]) == ("first", [3], 1, 3)
    assert run["cards"][0]["pseudo_label"] == "4"
    assert run["cards"][0]["mean_entropies"] == [0.2, 0.2, 0.9]


def test_off(make_service):
    page = make_service(page="off")
    assert page.post(BODY).status_code == 200
    assert page.state.recorder.page is None
    for path in ("/", "/page/data", "/page/events", "/page/report.js"):
        assert page.get(path).status_code == 404


def test_the_token_guards_all_that_is_known(make_service):
    page = make_service(page="on", token="s3cret")
    bearer = {"Authorization": "Bearer s3cret"}
    assert page.get("/").status_code == 401
    assert "<main" in page.get("/").text  # it asks for the token
    assert page.get("/?token=s3cret").status_code == 200
    assert "s3cret" not in page.get("/?token=s3cret").text
    assert page.get("/page/report.js").status_code == 200
    for path in ("/page/data", "/page/events"):
        assert page.get(path).status_code == 401
        assert page.get(path, headers={"Authorization": "Bearer other"}).status_code == 401
    assert shown(page, **bearer) == []


def test_events_tell_of_more_and_end_when_the_service_stops(page):
    async def listen():
        stream = _events(page.state)
        first = await anext(stream)
        assert page.state.streams == 1
        await asyncio.to_thread(page.post, BODY)
        assert await asyncio.to_thread(page.state.recorder.flush)
        second = await anext(stream)
        page.state.draining = True
        rest = [event async for event in stream]
        return first, second, rest

    first, second, rest = asyncio.run(listen())
    assert first != second
    assert second == f"data: {page.state.recorder.page.grown}\n\n".encode()
    assert rest == []
    assert page.state.streams == 0
    assert page.get("/page/events").status_code == 503


def test_a_quiet_stream_lives_without_an_event(page, monkeypatch):
    """Of an event the page draws itself anew: what its reader has opened, selected or points at would be lost."""
    monkeypatch.setattr(routes, "QUIET", 2 * routes.TICK)

    async def listen():
        stream = _events(page.state)
        events = [await anext(stream) for _ in range(3)]
        await stream.aclose()
        return events

    assert [event.startswith(b"data:") for event in asyncio.run(listen())] == [True, False, False]


def test_another_site_can_neither_read_the_page_s_data_nor_hold_its_streams(page):
    """An image of another site comes without Origin and says by Sec-Fetch-Site what it is."""
    for path in ("/page/data", "/page/events"):
        for site in ("cross-site", "same-site"):
            assert page.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403
    for site in ("same-origin", "none"):
        assert page.get("/page/data", headers={"Sec-Fetch-Site": site}).status_code == 200
    assert page.state.streams == 0


def test_a_restart_shows_the_runs_of_the_log(make_service, tmp_path):
    first = make_service(page="on", run_log=str(tmp_path))
    for step in (3, 4):
        for run in ("first", "second"):
            assert first.post({**BODY, "run": run, "step": step}).status_code == 200
    assert first.state.recorder.flush()
    before = shown(first)
    first.state.recorder.close()
    again = make_service(page="on", run_log=str(tmp_path))
    after = shown(again)
    assert {run["run"]: (run["columns"], run["groups"]) for run in after} == {
        run["run"]: (run["columns"], run["groups"]) for run in before
    }
    again.post({**BODY, "step": 5})
    assert {run["run"]: run["columns"]["step"] for run in shown(again)} == {"first": [3, 4, 5], "second": [3, 4]}


def test_one_long_answer_hides_no_group(page):
    for answer in ("4", "x" * 200_000, "5"):
        rollouts = [{"answer": answer, "mean_entropy": 0.1}]
        assert page.post({"run": "r", "groups": [{"rollouts": rollouts, "label": answer}]}).status_code == 200
    (run,) = shown(page)
    assert len(run["cards"]) == 3
    assert max(len(card["pseudo_label"]) for card in run["cards"]) < 1000
