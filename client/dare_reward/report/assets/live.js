"use strict";
// The page of the service: the same report, asked for again each second, and sliders that ask POST /reward.
(() => {
  const { answers, command, draw, el, num, table } = window.dareReport;
  const WEIGHTS = ["linear", "sqrt", "exp", "log", "none"];
  const options = { extras };
  const status = document.getElementById("live");
  const page = document.getElementById("page");
  let methods = null, shown = null;

  // --- the token: once in the address, then only in this tab ------------------------------------------------------------

  const address = new URL(location.href);
  if (address.searchParams.has("token")) {
    sessionStorage.setItem("token", address.searchParams.get("token"));
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }

  function ask(path, init = {}) {
    const token = sessionStorage.getItem("token");
    const headers = { ...init.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    return fetch(path, { ...init, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  }

  function askToken() {
    const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const enter = () => { sessionStorage.setItem("token", field.value); listen(); };
    field.addEventListener("keydown", (e) => e.key === "Enter" && enter());
    page.replaceChildren(el("section", { class: "empty" }, el("h1", {}, "This service wants its token"),
      el("label", { class: "lead", for: "token" }, "The value of DARE_TOKEN. It stays in this tab."),
      el("div", { class: "token" }, field, el("button", { type: "button", class: "button", onclick: enter }, "Open"))));
    status.textContent = "";
    field.focus();
  }

  // --- keeping up -------------------------------------------------------------------------------------------------------

  async function listen() {
    for (;;) {
      const began = performance.now();
      try {
        if (!await renew()) return askToken();
      } catch (error) {
        status.textContent = "The service does not answer; trying again";
      }
      const spent = performance.now() - began; // a report that is slow to make is asked for less often
      await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(1000, 9 * spent), 10000)));
    }
  }

  /** Ask for the report, and draw it if there is more of it than what is shown; false without the token. */
  async function renew() {
    const reply = await ask(`page/data?seen=${shown ? shown.now : ""}`);
    if (reply.status === 401) return false;
    if (!reply.ok) throw new Error(String(reply.status));
    if (status.textContent !== "Live") status.textContent = "Live";
    if (reply.status === 204) return true;
    shown = { ...await reply.json(), made: `as of ${new Date().toLocaleTimeString("en-GB")}` };
    if (shown.runs.length) draw(shown, options);
    else empty();
    return true;
  }

  function empty() {
    const rollouts = [["4", 0.2], ["4", 0.3], ["5", 0.9]].map(([answer, h]) => ({ answer, mean_entropy: h }));
    const body = JSON.stringify({ run: "first", step: 0, groups: [{ rollouts }] });
    const ways = [
      ["To see one, post this", `curl ${location.origin}/reward -H 'content-type: application/json' -d '${body}'`],
      ["In TRL", `from dare_reward.stacks.trl import DareReward\nGRPOTrainer(..., reward_funcs=DareReward("${location.origin}"))`],
      ["In OpenRLHF (before 0.10.2: --remote_rm_url)", `--reward.remote_url "${location.origin}/reward?group_size=N&run=NAME-$(date +%s)-$$"`],
    ];
    page.className = "";
    page.replaceChildren(el("section", { class: "empty" }, el("h1", {}, "No group has been scored yet"),
      el("p", { class: "lead" }, "Groups appear here as they are scored."),
      ways.map(([how, text]) => [el("h2", {}, how), command(text)])));
  }

  // --- what if: the group again, by other parameters and other methods -----------------------------------------------------

  /** The rollouts as they were compared: their answers stand for their classes. */
  function rollouts(card) {
    return card.answers.map((answer, i) => ({ answer, mean_entropy: (card.mean_entropies || [])[i] ?? null,
      num_tokens: (card.num_tokens || [])[i] ?? null, trained: card.trained ? card.trained[i] : true }))
      .map((r) => Object.fromEntries(Object.entries(r).filter(([k, v]) => v !== null || k === "answer")));
  }

  async function score(groups, rest = {}) {
    const reply = await ask("reward", { method: "POST", headers: { "Content-Type": "application/json", "Dare-Record": "no" },
      body: JSON.stringify({ groups, ...rest }) });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.detail || found.title);
    return found.groups;
  }

  const known = async () => {
    if (!methods) methods = (await (await ask("methods")).json()).methods;
    return methods;
  };

  function extras(card, place) {
    if (!card.answers || card.answers.length < card.size) return [];
    const note = el("p", { class: "note", role: "status" }, "The numbers above are those that the run got.");
    const knobs = { alpha: slider("alpha", 0, 1, 0.01, 0.1), tau: slider("tau", 0, 0.99, 0.01, 0.05),
      eps: slider("eps", -6, 0, 0.1, -1.3, (x) => Number((10 ** x).toPrecision(2))),
      weight: chooser("weight", WEIGHTS) };
    let turn = 0;
    const again = async () => {
      const mine = ++turn;
      const params = Object.fromEntries(Object.entries(knobs).map(([name, knob]) => [name, knob.value()]));
      if (!(card.mean_entropies || []).length) params.missing_entropy = "frequency";
      try {
        const [found] = await score([{ group_id: "page", kind: "exact", rollouts: rollouts(card) }], { method: "dare", params });
        if (mine !== turn) return;
        if (found.error) throw new Error(found.error.message);
        place.replaceChildren(answers(card, found));
        place.dataset.rewards = JSON.stringify(found.support.map((s) => [s.answer, s.reward]));
        note.textContent = `By dare with these parameters, the pseudo-label is ${found.pseudo_label ?? "none"}${found.pseudo_label === card.pseudo_label ? ", as in the run" : `; in the run it was ${card.pseudo_label ?? "none"}`}.`;
      } catch (error) {
        note.textContent = String(error.message);
      }
    };
    let timer = 0;
    Object.values(knobs).forEach((k) => k.field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(again, 80); }));
    const reset = el("button", { type: "button", class: "button", onclick: () => { turn++; place.replaceChildren(answers(card, card)); Object.values(knobs).forEach((k) => k.reset()); note.textContent = "The numbers above are those that the run got."; } }, "As in the run");
    const others = el("details", {}, el("summary", {}, "Other methods side by side"));
    others.addEventListener("toggle", async () => {
      if (others.open && others.childElementCount === 1) others.append(await sideBySide(card).catch((e) => el("p", { class: "problem" }, e.message)));
    });
    return [el("div", { class: "try" }, el("h3", {}, "What if"), el("p", { class: "note" }, "Move a slider, and the service scores these rollouts again by dare. Nothing of it enters the run."),
      el("div", { class: "knobs" }, Object.values(knobs).map((k) => k.label)), el("p", {}, reset), note), others];
  }

  function slider(name, min, max, step, start, show = (x) => x) {
    const field = el("input", { type: "range", id: `knob-${name}`, min, max, step, value: start });
    const said = el("output", { for: `knob-${name}` }, String(show(start)));
    const value = () => show(Number(field.value));
    field.addEventListener("input", () => { said.textContent = String(value()); field.setAttribute("aria-valuetext", String(value())); });
    return { field, value, reset: () => { field.value = start; said.textContent = String(show(start)); }, label: el("label", { for: `knob-${name}` }, name, said, field) };
  }

  function chooser(name, choices) {
    const field = el("select", { id: `knob-${name}` }, choices.map((c) => el("option", {}, c)));
    return { field, value: () => field.value, reset: () => { field.value = choices[0]; }, label: el("label", { for: `knob-${name}` }, name, field) };
  }

  /** The same rollouts under every method that needs no more than these; a reward for each answer. */
  async function sideBySide(card) {
    const entropies = (card.mean_entropies || []).filter((u) => u !== null).length;
    const enough = (m) => m.offered && m.requires.every((r) => r === "answer" || (r === "mean_entropy" && entropies)) && m.output === "rewards" && m.evidence !== "experimental" && !m.parameters.some((p) => p.required);
    const names = (await known()).filter(enough).map((m) => m.name);
    const ask = (method) => score([{ group_id: method, kind: "exact", rollouts: rollouts(card) }], { method }).catch(() => []);
    const found = (await Promise.all(names.map(ask))).flat();
    const top = [...(card.support || [])].sort((a, b) => b.count - a.count).slice(0, 5).map((s) => s.answer);
    const rows = found.filter((g) => !g.error).map((g) => {
      const by = new Map((g.support || []).map((s) => [s.answer, s.reward]));
      return [g.method, g.pseudo_label ?? "none", ...top.map((a) => num(by.get(a), 3))];
    });
    return el("div", { class: "scroll" }, table(["method", "pseudo-label", ...top.map((a) => `reward of ${a}`)], rows, { caption: "Methods", numeric: (i) => i > 1 }));
  }

  listen();
})();
