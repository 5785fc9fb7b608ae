"use strict";
// The page of `dare-reward label`: one question at a time, by keys. It goes on when a decision is on the disk.
(() => {
  const { el } = window.dareReport;
  const { questions, decisions, file, next } = JSON.parse(document.getElementById("questions").textContent);
  const page = document.getElementById("page"), status = document.getElementById("live");
  const KEYS = 9;
  const open = () => questions.filter((q) => !decisions[q.group_id]);
  let at = Math.max(questions.findIndex((q) => !decisions[q.group_id]), 0), busy = false, finished = false, verdict = {};
  if (!open().length) at = questions.length;

  const key = (name) => el("kbd", { "aria-hidden": "true" }, name);
  const button = (name, words, onclick) =>
    el("button", { type: "button", class: "button", "aria-keyshortcuts": name, onclick }, key(name), " ", words);

  function choice(question, found, i) {
    const own = decisions[question.group_id];
    const pressed = own && own.decision === "right" && own.label === found.answer;
    return el("li", {},
      el("button", { type: "button", class: "button choice", "aria-pressed": String(Boolean(pressed)),
        "aria-keyshortcuts": i < KEYS ? String(i + 1) : null, onclick: () => decide("right", found.answer) },
        i < KEYS ? key(String(i + 1)) : null, el("span", {}, found.answer), " ", el("small", {}, `${found.votes} of ${question.rollouts}`)),
      el("details", {}, el("summary", {}, `Rollouts of answer ${i + 1}`),
        found.texts.map(([text, times]) => el("pre", { tabindex: "0" }, times > 1 ? `${times} times: ` : "", text || "(no text)"))));
  }

  function draw() {
    const done = questions.length - open().length, question = questions[at];
    const progress = `${done} of ${questions.length} decided`;
    page.replaceChildren(
      el("h1", {}, question ? "Which answer is right?" : "All questions are answered"),
      el("p", { class: "facts" }, progress),
      el("progress", { max: questions.length, value: done, "aria-label": "decided" }),
      question ? ask(question) : end());
    document.getElementById("question").focus();
  }

  function ask(question) {
    const own = decisions[question.group_id], typed = own && own.decision === "right" && !question.choices.some((c) => c.answer === own.label);
    const field = el("input", { id: "other", type: "text", autocomplete: "off", maxlength: "2000", value: typed ? own.label : null });
    const save = () => field.value.trim() && decide("right", field.value);
    field.addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.isComposing) save(); });
    const before = own ? el("p", { class: "note" }, `Decided: ${said(own)}. A new decision replaces it.`) : null;
    const more = question.choices.slice(KEYS);
    return el("section", { id: "question", class: "card", tabindex: "-1", "aria-label": `Question ${at + 1} of ${questions.length}` },
      el("p", { class: "note" }, `Question ${at + 1}: ${question.group_id}`),
      el("div", { class: "prompt", tabindex: "0" }, question.prompt || "This file holds no prompt. Name the file that does: dare-reward label FILE --prompts FILE."),
      before,
      el("ol", { class: "choices" }, question.choices.slice(0, KEYS).map((c, i) => choice(question, c, i))),
      more.length ? el("details", {}, el("summary", {}, `${more.length} rarer answers`),
        el("ol", { class: "choices" }, more.map((c, i) => choice(question, c, i + KEYS)))) : null,
      question.silent ? el("p", { class: "note" }, `${question.silent} of ${question.rollouts} rollouts give no answer.`) : null,
      el("div", { class: "deeds" }, el("label", { for: "other" }, key("a"), " Another answer"), field,
        el("button", { type: "button", class: "button", onclick: save }, "Save")),
      el("div", { class: "deeds" }, button("n", "None is right", () => decide("none")), button("c", "Cannot tell", () => decide("unknown")),
        button("b", "Back", () => go(at - 1)), button("s", "Skip", () => go(at + 1))));
  }

  function end() {
    return el("section", { id: "question", class: "card", tabindex: "-1", "aria-label": "The end" },
      el("p", {}, finished ? "You can close this page." : "Your labels are in ", finished ? null : el("code", {}, file), finished ? null : "."),
      verdict.headline ? el("h2", {}, verdict.headline) : null, verdict.why ? el("p", {}, verdict.why) : null,
      el("div", { class: "empty" }, el("p", {}, "Next:"), el("pre", { tabindex: "0" }, next)),
      finished ? null : el("div", { class: "deeds" }, button("f", "Finish", finish), button("b", "Back", () => go(questions.length - 1))));
  }

  const said = ({ decision, label }) => (decision === "right" ? label : decision === "none" ? "none is right" : "cannot tell");

  function go(place) {
    at = Math.min(Math.max(place, 0), open().length ? questions.length - 1 : questions.length);
    draw();
  }

  async function send(path, body) {
    const reply = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), credentials: "omit", redirect: "error" });
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  }

  async function decide(decision, label = null) {
    if (busy) return;
    busy = true;
    const question = questions[at];
    try {
      const { votes } = await send("decision", { group_id: question.group_id, decision, label });
      decisions[question.group_id] = { decision, label: label && label.trim() };
      const unseen = decision === "right" && !votes ? ", which no rollout gives" : "";
      status.textContent = `Saved question ${at + 1}: ${said(decisions[question.group_id]).slice(0, 60)}${unseen}`;
      const later = questions.findIndex((q, i) => i > at && !decisions[q.group_id]);
      at = later >= 0 ? later : questions.findIndex((q) => !decisions[q.group_id]);
      if (at < 0) at = questions.length;
      draw();
    } catch (error) {
      status.textContent = `Not saved: ${error.message}. If the command has ended, run it again: what was saved is kept.`;
    }
    busy = false;
  }

  async function finish() {
    try {
      verdict = await send("finish", {});
      finished = true;
      draw();
    } catch (error) {
      status.textContent = `The command does not answer: ${error.message}`;
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || finished) return;
    if (event.target.tagName === "INPUT") {
      if (event.key === "Escape") document.getElementById("question").focus();
      return;
    }
    const question = questions[at], place = Number(event.key) - 1;
    const deeds = { b: () => go(at - 1), ...(question
      ? { n: () => decide("none"), c: () => decide("unknown"), s: () => go(at + 1), a: () => document.getElementById("other").focus() }
      : { f: finish }) };
    if (question && place >= 0 && place < Math.min(question.choices.length, KEYS)) decide("right", question.choices[place].answer);
    else if (deeds[event.key]) deeds[event.key]();
    else return;
    event.preventDefault();
  });

  document.title = "Label prompts: dare-reward";
  draw();
})();
