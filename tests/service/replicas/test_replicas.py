"""Replicas and shards in one process, without Ray: every reply is the one that a single process gives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import httpx
import pytest

from dare_service.app import create_app
from dare_service.replicas.ingress import ShardLink, Shards
from dare_service.replicas.ring import group_of, owner_of
from dare_service.replicas.shard import UNWANTED, Shard
from dare_service.settings import Settings

pytestmark = pytest.mark.anyio
URL = "/get_reward?run=r&group_size={}&extra_logs=off&method=ttrl"


def body(answer, prompt="p\n"):
    return {"query": [f"{prompt}\\boxed{{{answer}}}"], "prompts": [prompt], "labels": [""]}


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """Beats come often, and the servers leave the signals and the process to pytest."""
    monkeypatch.setattr("dare_service.replicas.ingress.BEAT", 0.02)
    monkeypatch.setattr("dare_service.replicas.shard.BEAT", 0.02)
    monkeypatch.setattr("dare_service.replicas.shard.ready_the_process", lambda _: None)
    monkeypatch.setattr("uvicorn.Server.capture_signals", lambda _: contextlib.nullcontext())


class Place:
    """Where a shard is; another one takes its place when it dies."""

    def __init__(self, settings, number):
        self.words = settings, number, "127.0.0.1"
        self.down, self.shard = False, None
        self.restart()

    def restart(self):
        self.stop()
        self.shard = Shard(*self.words, "f")
        self.state = self.shard.state
        self.state.openrlhf.join.began = float("-inf")

    def stop(self):
        """The process is gone: its kernel breaks the connections."""
        if self.shard is not None and self.shard._serving is not None:
            self.shard._serving.cancel()
            self.shard._watching.cancel()
            for server in self.shard.server.servers:
                server.close()
            for connection in list(self.shard.server.server_state.connections):
                connection.transport.abort()

    def asked(self):
        """How many requests have reached it."""
        return sum(counter._value.get() for counter in self.state.metrics.requests._metrics.values())

    async def find(self):
        if self.down:
            raise ConnectionError
        return self.shard


class Cluster:
    def __init__(self, replicas=3, shards=2, **settings):
        self.settings = Settings(**{"log": "off", "page": "off", "join_runs": "any", **settings})
        self.places = [Place(self.settings, number) for number in range(shards)]
        self.apps = [create_app(self.settings) for _ in range(replicas)]
        self.clients = []
        for number, app in enumerate(self.apps):
            state = app.state.dare
            links = [ShardLink(f"replica{number}", "f", place.find) for place in self.places]
            state.shards = Shards(f"replica{number}", self.settings, state.workers, links)
            self.clients.append(httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test"))

    async def post(self, replica, answer, size, prompt="p\n"):
        reply = await self.clients[replica].post(URL.format(size), json=body(answer, prompt))
        return reply.status_code, reply.content

    def waiting(self):
        return sum(s.state.openrlhf.join.waiting for s in self.places)

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110  the condition is not ours to signal
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def cluster(**options):
    made = Cluster(**options)
    try:
        yield made
    finally:
        for app in made.apps:
            for link in app.state.dare.shards.links:
                link.stop()
        for client in made.clients:
            await client.aclose()
        for place in made.places:
            place.stop()


async def one_process(answers, size, prompt="p\n"):
    app = create_app(Settings(log="off", page="off", join_runs="any"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        replies = await asyncio.gather(*(client.post(URL.format(size), json=body(a, prompt)) for a in answers))
    return [(r.status_code, r.content) for r in replies]


def test_the_hash_is_stable():
    """Replicas of two versions must agree: these values never change."""
    single = json.dumps(body(1)).encode()
    keyed = json.dumps({**body(1), "group_key": ["k"], "index": [0]}).encode()

    def digest(query, content, address="10.0.0.1"):
        return group_of(query, content, address=address, memory=1 << 20).hex()

    assert [
        digest("run=a", single),
        digest("", single),
        digest("run=a", keyed),
    ] == [
        "b470a7dcd96acb1e750d0e3cc072bd1e",
        "4fe272ecd17d6e4e5fdc791e732cb0d8",
        "e269192da0317761a789dc03b26536b6",
    ]
    assert digest("run=a&group_size=8", single, "other") == digest("run=a", single)
    assert digest("", single, "10.0.0.2") != digest("", single)


def test_labels_that_are_equal_share_an_owner():
    def digest(label):
        content = json.dumps({**body(1), "labels": [label]}).encode()
        return group_of("run=a", content, address="", memory=1 << 20)

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})


def test_groups_spread():
    owners = [
        owner_of(group_of("run=a", json.dumps(body(1, f"p{i}")).encode(), address="", memory=1 << 20), 4)
        for i in range(400)
    ]
    assert min(owners.count(n) for n in range(4)) > 50


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"query": [], "prompts": [], "labels": []}',
        b'{"query": ["a", "b"], "prompts": ["p", "p"], "labels": ["", ""]}',
        b'{"query": "a", "prompts": "p"}',
        b'{"query": ["a"], "prompts": []}',
        b'{"query": ["a"], "prompts": ["p"], "labels": []}',
        b'{"query": 1, "prompts": ["p"]}',
    ],
)
def test_what_is_no_single_rollout_has_no_owner(content):
    assert group_of("run=a", content, address="", memory=1 << 20) is None


async def test_every_replica_gives_the_answer_of_one_process():
    answers = [1, 1, 2, 1, 3, 1]
    async with cluster() as c:
        for prompt in ("a\n", "b\n", "c\n", "d\n"):
            found = await asyncio.gather(*(c.post(i % 3, a, 6, prompt) for i, a in enumerate(answers)))
            assert found == await one_process(answers, 6, prompt)
        assert all(p.asked() for p in c.places)


BREAKS = "x%0d%0aX-Forwarded-For:%2010.9.9.9%0d%0a%0d%0aPOST%20/get_reward"


@pytest.mark.parametrize(
    "url",
    [
        "/get_reward?run=r",
        "/get_reward?run=r&group_size=2&nonsense=1",
        "/reward?run=r",
        "/get_reward?run=r&token=mine",
        "/get_reward?run=r&group_size=1&method=ttrl&token=mine",
        f"/get_reward?run=r&group_size=1&method=ttrl&token={BREAKS}",
    ],
)
async def test_answers_are_those_of_one_process(url):
    """Whatever a token holds where none is set."""
    plain = create_app(Settings(log="off", page="off", join_runs="any"))
    async with cluster() as c, httpx.AsyncClient(transport=httpx.ASGITransport(plain), base_url="http://test") as one:
        headers = {"x-request-id": "mine"}
        here, there = [await x.post(url, json=body(1), headers=headers) for x in (c.clients[0], one)]
        assert (here.status_code, here.content) == (there.status_code, there.content)
        assert sorted(here.headers.multi_items()) == sorted(there.headers.multi_items())


async def test_the_token_is_asked_for_at_the_replica():
    async with cluster(token="secret") as c:
        refused = await c.clients[0].post(URL.format(1), json=body(1))
        assert refused.status_code == 401
        assert not any(p.asked() for p in c.places)
        given = await c.clients[0].post(URL.format(1) + "&token=secret", json=body(1))
        assert given.status_code == 200
        basic = {"Authorization": "Basic dTpw"}  # as some clients add by themselves
        assert (
            await c.clients[0].post(URL.format(1) + "&token=secret", json=body(1), headers=basic)
        ).status_code == 200


async def test_nobody_but_replicas_asks_a_shard():
    """Its port may be open to more than the service's own is."""
    async with cluster(shards=1) as c:
        assert (await c.post(0, 1, 1))[0] == 200
        (shard,) = c.apps[0].state.dare.shards.links
        host, port = shard.status["address"]
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as stranger:
            assert (await stranger.post(URL.format(1), json=body(1))).status_code == 401
        assert "token" not in (await c.clients[0].get("/info")).json()["replicas"]["shards"][0]


async def test_single_rollouts_below_a_prefix_of_ray_serve():
    async with cluster() as c:
        below = httpx.AsyncClient(
            transport=httpx.ASGITransport(c.apps[0], root_path="/dare"), base_url="http://test/dare"
        )
        assert (await below.post(URL.format(1), json=body(1))).status_code == 200


@pytest.mark.parametrize("route", ["/get_reward", "/reward"])
async def test_a_rollout_that_waits_for_siblings_holds_none_of_its_replica_s_room(route):
    text = "x" * 100_000

    def rollout(i):
        return {"query": [f"p{text}{i} \\boxed{{4}}"], "prompts": ["p"], "labels": [""]}

    bounds = {"max_body_bytes": 200_000, "max_json_bytes": 200_000}
    async with cluster(replicas=1, max_inflight_bytes=250_000, **bounds) as c:
        admission = c.apps[0].state.dare.admission
        posts = []
        for i in range(4):
            posts.append(
                asyncio.ensure_future(c.clients[0].post(f"{route}?run=r&group_size=4&method=ttrl", json=rollout(i)))
            )
            await c.until(lambda: c.waiting() == len(posts) or posts[-1].done())
            assert admission.held == 0
        assert [r.status_code for r in await asyncio.gather(*posts)] == [200] * 4


async def test_whole_groups_are_scored_where_they_arrive():
    async with cluster() as c:
        groups = {"groups": [{"rollouts": [{"answer": "1"}, {"answer": "1"}]}]}
        assert (await c.clients[1].post("/reward?method=ttrl", json=groups)).status_code == 200
        step = {"query": ["a\\boxed{1}", "a\\boxed{2}"], "prompts": ["a", "a"], "labels": ["", ""]}
        assert (await c.clients[1].post(URL.format(2), json=step)).status_code == 200
        assert not any(p.asked() for p in c.places)


async def test_the_same_text_waits_at_two_replicas():
    """Alike and both alive: two rollouts, as in one process."""
    async with cluster() as c:
        found = await asyncio.gather(c.post(0, 1, 3), c.post(1, 1, 3), c.post(2, 2, 3))
        assert found == await one_process([1, 1, 2], 3)


async def test_a_client_that_goes_and_comes_back_elsewhere_counts_once():
    async with cluster() as c:
        first = asyncio.ensure_future(c.post(0, 1, 3))
        await c.until(lambda: c.waiting() == 1)
        first.cancel()
        await c.until(lambda: c.waiting() == 0)
        found = await asyncio.gather(c.post(1, 1, 3), c.post(0, 2, 3), c.post(2, 3, 3))
        assert found == await one_process([1, 2, 3], 3)


async def as_a_replica(place, content, last):
    """Ask a shard as a replica does, with `last` words after its reply."""
    reader, writer = await asyncio.open_connection(*place.shard._listener.getsockname()[:2])
    told = {"Host": "localhost", "X-Forwarded-For": "127.0.0.1", "Content-Type": "application/json"}
    told |= {"Authorization": f"Bearer {place.shard._own_token}", "Content-Length": len(content)}
    lines = [f"POST {URL.format(3)} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + content)
    reply = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(reply.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    writer.write(last)
    writer.close()
    return reply


@pytest.mark.parametrize(("last", "again"), [(b"", 200), (b"\r\n", 0)])
async def test_a_reply_that_died_with_its_replica_is_given_again(last, again):
    """A replica that was killed has read its reply, perhaps. Only its last word says that the client has it."""
    async with cluster(shards=1) as c:
        others = [asyncio.ensure_future(c.post(0, a, 3)) for a in (2, 3)]
        await c.until(lambda: c.waiting() == 2)
        assert b" 200 " in await as_a_replica(c.places[0], json.dumps(body(1)).encode(), last)
        await asyncio.gather(*others)
        retry = asyncio.ensure_future(c.post(2, 1, 3))
        await c.until(lambda: retry.done() or c.waiting() == 1)
        assert (retry.result()[0] if retry.done() else 0) == again  # the next epoch's waits for siblings
        retry.cancel()


async def test_a_replica_s_connections_end_soon_after_its_machine():
    async with cluster(shards=1, replicas=1) as c:
        post = asyncio.ensure_future(c.post(0, 1, 3))
        await c.until(lambda: c.waiting() == 1)
        (connection,) = c.places[0].shard.server.server_state.connections
        ours = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert 0 < ours < 10_000  # when the replica notices, at the earliest, and lets its client try again
        post.cancel()


async def test_a_shard_dies_and_everyone_comes_back():
    async with cluster() as c:
        waiting = [asyncio.ensure_future(c.post(r, a, 3)) for r, a in ((0, 1), (1, 1))]
        await c.until(lambda: c.waiting() == 2)
        for place in c.places:
            place.restart()
        lost = await asyncio.gather(*waiting)
        assert [status for status, _ in lost] == [503, 503]
        assert b"was lost" in lost[0][1]

        async def tries(replica, answer):
            for _ in range(20):
                status, content = await c.post(replica, answer, 3)
                if status == 200:
                    return status, content
                await asyncio.sleep(0.1)
            return status, content

        found = await asyncio.gather(tries(0, 1), tries(1, 1), tries(2, 2))
        assert found == await one_process([1, 1, 2], 3)


async def test_rollouts_wait_for_a_shard_that_is_not_there_yet():
    """Its start may take longer than the five seconds of five tries that fail at once."""
    async with cluster() as c:
        for place in c.places:
            place.down = True
        first = [asyncio.ensure_future(c.post(i, a, 3)) for i, a in enumerate((1, 1))]
        await c.until(lambda: all(app.state.dare.shards.links[0].status == {"lost": True} for app in c.apps[:2]))
        assert not any(task.done() for task in first)
        for place in c.places:
            place.down = False
        assert await asyncio.gather(*first, c.post(2, 2, 3)) == await one_process([1, 1, 2], 3)


async def test_a_delivered_reward_is_not_given_to_the_next_epoch():
    async with cluster() as c:
        await asyncio.gather(*(c.post(0, a, 2) for a in (1, 2)))
        await c.until(lambda: not any(p.shard.server.server_state.connections for p in c.places if p.asked()))
        found = await asyncio.gather(c.post(1, 1, 2), c.post(2, 1, 2))
        assert found == await one_process([1, 1], 2)


async def test_info_and_metrics_name_replicas_and_shards():
    async with cluster() as c:
        await asyncio.gather(*(c.post(i, 1, 3) for i in range(3)))
        told = (await c.clients[1].get("/info")).json()["replicas"]
        assert told["replica"] == "replica1"
        assert "replica0" in {name for shard in told["shards"] for name in shard["replicas"]}
        text = (await c.clients[1].get("/metrics")).text
        counted = [line for line in text.splitlines() if line.startswith("dare_join_groups_total{")]
        lines = [line for line in counted if not line.endswith(" 0.0")]
        assert len(lines) == 1
        assert 'reason="full"' in lines[0]
        assert 'shard="' in lines[0]
        posts = [x for x in text.splitlines() if x.startswith("dare_requests_total{") and "/get_reward" in x]
        assert all('replica="' in line for line in posts)
        assert text.count("# TYPE dare_requests_total") == 1


async def test_a_shard_that_no_replica_of_its_kind_wants(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(Shard, "clock", lambda _: now[0])
    shard = Shard(Settings(log="off"), 0, "127.0.0.1", "new")
    ended = asyncio.Event()
    monkeypatch.setattr(shard, "ended", ended.set)
    told = await shard.beat("old", "old")
    now[0] = UNWANTED + 1
    await shard.beat("other", "new")
    await shard.beat("old", "old")
    assert not shard.unwanted()
    now[0] += UNWANTED + 1
    await shard.beat("old", "old")
    await asyncio.wait_for(ended.wait(), 60)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*told["address"])
