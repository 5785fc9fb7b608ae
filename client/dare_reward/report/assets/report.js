"use strict";
// Draws a view (dare_reward/report/view.py) into the page. Whatever a rollout says becomes text, never markup: `el` has
// no other way, and the page's policy forbids the rest.
window.dareReport = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const TONES = { main: "--main", other: "--other", good: "--good", bad: "--bad", warn: "--warn", quiet: "--quiet" };
  const SHOWN = 10; // answers of a group before "more"

  // --- small things ---------------------------------------------------------------------------------------------------

  /** Control characters and those that turn or hide text, written out. */
  const clean = (text) =>
    String(text).replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

  /** An element; strings become text nodes. */
  function el(tag, props, ...children) {
    const made = tag === "svg" || SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : clean(value));
    }
    for (const child of children.flat(3)) {
      if (child !== null && child !== undefined && child !== false)
        made.append(child instanceof Node ? child : document.createTextNode(clean(child)));
    }
    return made;
  }
  const SVG_TAGS = new Set(["circle", "line"]);

  const known = (x) => x !== null && x !== undefined;
  const num = (x, digits = 2) => {
    if (!known(x)) return "–";
    if (Math.abs(x) >= 100) return Math.round(x).toLocaleString("en");
    const text = Number(x).toFixed(Math.abs(x) >= 10 ? Math.min(digits, 1) : digits);
    return Number(text) === 0 ? text.replace("-", "") : text;
  };
  const count = (n) => Number(n).toLocaleString("en");
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
  const mean = (xs) => {
    const found = xs.filter(known);
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const sentence = (text) => text[0].toUpperCase() + text.slice(1);
  const slug = (word) => word.replace(/ /g, "-");

  function table(head, rows, { caption, numeric = () => true } = {}) {
    const cell = (tag, text, i) => el(tag, { class: numeric(i) ? "n" : null, scope: tag === "th" ? "col" : null }, text);
    return el("table", {},
      caption ? el("caption", { class: "sr" }, caption) : null,
      el("thead", {}, el("tr", {}, head.map((h, i) => cell("th", h, i)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((c, i) => cell("td", c, i))))));
  }

  // --- verdict --------------------------------------------------------------------------------------------------------

  const SENTENCES = {
    "one-answer-everywhere": "Different prompts are getting the same answer.",
    "answers-vanish": "Rollouts stop giving an answer.",
    "nothing-left-to-learn": "Nearly every group agrees with itself: its rewards are equal and teach nothing more.",
    "agreement-rises": "Rollouts of a prompt come to one answer, as in every run that trains on agreement. Only labels tell whether it is the right one.",
    "no-rule-fires": "No label-free rule fires.",
    "too-few-steps": "There are too few steps to compare.",
    "one-set": "Ask dare-reward calibrate whether entropy helps here, and dare-reward compare what other methods choose.",
    "still-reading": "Older groups of this run are not all added up yet.",
    "auroc-above-half": "Right rollouts have lower entropy than wrong ones.",
    "auroc-around-half": "Right and wrong rollouts cannot be told apart by entropy: a plain vote does as well.",
    "auroc-below-half": "Wrong rollouts are the surer ones. Weighting votes by entropy makes labels worse.",
    "accuracy-fell": "Prompts are right less often than on their earlier visits.",
    "accuracy-rose": "Prompts are right more often than on their earlier visits.",
    "accuracy-unclear": "Prompts are right about as often as on their earlier visits.",
    "too-few-visits": "Too few labelled prompts were seen twice to tell a rise or a fall from chance.",
    "too-few-mixed-groups": "Too few groups have both right and wrong rollouts.",
  };

  function verdict(about, found, rules, extra, other) {
    return el("section", { class: `card verdict ${slug(found.word)}` },
      el("h3", { class: "about" }, about),
      el("p", { class: "word" }, sentence(found.word)),
      el("p", {}, SENTENCES[found.rule], other ? [" ", el("b", { class: "wrong" }, other)] : null),
      el("p", { class: "why" }, found.why, extra ? `. ${extra}.` : "."),
      el("p", { class: "rule" }, "Rule ", el("code", {}, found.rule), ": ", rules[found.rule].meaning, "."));
  }

  function verdicts(run, rules) {
    const since = run.verdict.since;
    const falls = run.accuracy.word === "falls";
    const first = known(since) && run.verdict.rule !== "no-rule-fires" ? `The rule has fired since ${stepName(run, since)}` : "";
    const other = falls && run.verdict.word !== "collapsing" ? "The labels say worse: accuracy falls." : "";
    const cards = [verdict("The run, without labels", run.verdict, rules, first, other)];
    if (run.labelled) {
      cards.push(verdict(run.verdict.rule === "one-set" ? "Entropy, by the labels" : "Entropy, by the labels, in the last steps", run.entropy, rules));
      cards.push(verdict("Accuracy, by the labels", run.accuracy, rules, run.k ? `pass@1 is ${num(ends(run.columns["pass@1"])[1])} now` : ""));
    }
    if (falls) cards.unshift(cards.pop());
    const worst = run.headline;
    return el("div", {},
      el("p", { class: `headline ${worst.tone}` }, el("b", {}, worst.text), known(worst.since) ? `, since ${stepName(run, worst.since)}` : "", "."),
      el("div", { class: "verdicts" }, cards));
  }

  /** Means of the first and of the last three steps that know the measure. */
  function ends(column) {
    const found = column.filter(known);
    return found.length > 5 ? [mean(found.slice(0, 3)), mean(found.slice(-3))] : [found[0], found[found.length - 1]];
  }

  function tiles(run, all) {
    const several = run.columns.step.length > 5;
    const shown = ([key]) => run.columns[key].some(known);
    const list = el("dl", { class: "tiles", "aria-label": "Measures, early and now" },
      all.filter(shown).map(([key, name]) => {
        const [early, now] = ends(run.columns[key]);
        return el("div", { class: "tile" }, el("dt", { class: "name" }, name), el("dd", { class: "now" }, num(now)),
          several ? el("dd", { class: "then" }, `${num(early)} early`) : null);
      }));
    return several ? [list, el("p", { class: "note" }, "Means over the last 3 steps; early: over the first 3.")] : [list];
  }

  // --- charts ---------------------------------------------------------------------------------------------------------

  const plots = []; // of the page as it stands
  const opened = new Set(); // charts whose table is open

  const stepName = (run, i) => `${run.unit === "step" ? "step" : run.unit.replace(/s$/, "")} ${run.columns.step[i]}`;

  function charts(run, all, rules) {
    const wanted = [...all, ...run.charts]
      .filter((c) => (!c.labelled || run.labelled) && c.curves.some((k) => run.columns[k.key].some(known)));
    const box = el("div", { class: "charts" });
    for (const chart of wanted) box.append(chartCard(run, chart, rules));
    return box;
  }

  function chartCard(run, chart, rules) {
    const curves = chart.curves.filter((c) => run.columns[c.key].some(known));
    const names = curves.map((c) => (c.key === "pass@k" ? `pass@${run.k}` : c.name));
    const said = curves.map((c, i) => { const [a, b] = ends(run.columns[c.key]); return `${names[i]} from ${num(a)} to ${num(b)}`; });
    const place = el("div", { class: "plot", role: "img", "aria-label": `${chart.title}: ${said.join("; ")}` });
    const data = el("details", { open: opened.has(chart.name) }, el("summary", { id: `table-${chart.name}` }, "Table", el("span", { class: "sr" }, ` of ${chart.title}`)));
    data.addEventListener("toggle", () => {
      opened[data.open ? "add" : "delete"](chart.name);
      if (data.open && data.childElementCount === 1) data.append(el("div", { class: "scroll", tabindex: "0" }, table(
        [run.unit, "groups", ...names],
        run.columns.step.map((s, i) => [s, run.columns.groups[i], ...curves.map((c) => num(run.columns[c.key][i], 3))]),
        { caption: chart.title })));
    });
    plots.push({ place, run, rules, chart, curves, names });
    return el("figure", { class: `card chart ${chart.name === "truth" ? "wide" : ""}` },
      el("h3", {}, chart.title, " ", el("span", {}, chart.unit)), el("p", {}, chart.meaning), place, data);
  }

  function drawPlots() {
    const soft = colour("--soft"), line = colour("--line"), faint = colour("--faint");
    const axis = { stroke: soft, font: "11px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const tints = { collapsing: colour("--bad"), sharpening: colour("--quiet") };
    for (const plot of plots) {
      const { place, run, rules, chart, curves, names } = plot;
      if (plot.made) plot.made.destroy();
      const share = chart.unit === "share";
      const points = (values) => run.columns.step.length <= 30 || values.some((v, i) => known(v) && !known(values[i - 1]) && !known(values[i + 1]));
      plot.made = new uPlot({
        width: Math.max(place.clientWidth, 200), height: chart.name === "truth" ? 200 : 170,
        cursor: { sync: { key: "steps" }, y: false, points: { size: 7 } },
        scales: { x: { time: false }, y: share ? { range: [0, 1.02] } : { range: (u, low, high) => yRange(low, high) } },
        axes: [{ ...axis, size: 28, gap: 3, grid: { show: false }, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
          { ...axis, size: 42, gap: 4, values: (u, vs) => vs.map((v) => (share ? v.toFixed(1) : String(Number(v.toPrecision(6))))), space: 30,
            ...(share ? { splits: [0, 0.2, 0.4, 0.6, 0.8, 1] } : {}) }],
        series: [{ label: run.unit, value: (u, v) => (known(v) ? String(v) : "–") },
          ...curves.map((c, i) => { const stroke = colour(TONES[c.tone]); return {
            label: names[i], stroke, width: 1.75, spanGaps: false, points: { show: points(run.columns[c.key]), size: 4, fill: stroke, width: 0 },
            value: (u, v) => num(v, 3) }; })],
        hooks: { setCursor: [(u) => u.cursor.left < 0 && last(u)], ready: [last], drawClear: [(u) => shade(u, run, rules, tints)], drawAxes: [(u) => level(u, chart.level, faint)] },
      }, [run.columns.step, ...curves.map((c) => run.columns[c.key])], place);
    }
  }

  /** Where nobody points at a step, the legend has the values of the last one. */
  const last = (u) => u.setLegend({ idx: u.data[0].length - 1 }, false);

  const yRange = (low, high) => {
    const top = high > 0 ? high * 1.08 : 1;
    return [low < 0 ? low * 1.08 : 0, top];
  };

  /** Behind the curves: the steps at which a rule fires. */
  function shade(u, run, rules, tints) {
    const { ctx, bbox } = u, xs = run.columns.step;
    ctx.save();
    ctx.globalAlpha = 0.1;
    run.states.forEach((rule, i) => {
      const word = rule && rules[rule].word;
      if (!tints[word]) return;
      const left = u.valToPos(i ? (xs[i - 1] + xs[i]) / 2 : xs[i], "x", true);
      const right = u.valToPos(i + 1 < xs.length ? (xs[i] + xs[i + 1]) / 2 : xs[i], "x", true);
      ctx.fillStyle = tints[word];
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    });
    ctx.restore();
  }

  function level(u, value, stroke) {
    if (!known(value)) return;
    const y = u.valToPos(value, "y", true), { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = stroke;
    ctx.setLineDash([5, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }

  function shadeKey(run, rules) {
    const words = [...new Set(run.states.map((r) => r && rules[r].word).filter((w) => w && w !== "fine"))];
    return words.length ? el("div", { class: "key" }, words.map((w) => el("span", {}, el("i", { class: `swatch shade ${w}` }), `shaded: the verdict was "${w}"`))) : null;
  }

  // --- shadow methods -------------------------------------------------------------------------------------------------

  function shadows(run) {
    if (!run.shadows.length) return null;
    const judged = run.shadows.some((s) => s.judged);
    const rows = run.shadows.map((s) => [s.method, count(s.groups), count(s.differs), num(s.groups ? s.differs / s.groups : null), num(s.flipped),
      ...(judged ? [count(s.judged), count(s.theirs), count(s.ours)] : [])]);
    return el("section", {},
      el("h2", {}, "What other methods would have said"),
      el("p", { class: "lead" }, "The same rollouts, judged by shadow methods. ", judged ? "Where the labels differ and the truth is known, the last columns count whose label was right." : ""),
      el("div", { class: "card scroll" }, table(["method", "groups", "other label", "share", "advantages of the other sign",
        ...(judged ? ["truth known", "its label right", "the run's label right"] : [])], rows, { caption: "Shadow methods", numeric: (i) => i > 0 })));
  }

  // --- single groups --------------------------------------------------------------------------------------------------

  function groups(run, data, options) {
    const cards = run.cards, buttons = new Map();
    const kept = options.detail && options.detail.run === run.run ? options.detail : null;
    const detail = kept ? kept.element : el("div", { class: "card", id: "group", tabindex: "-1" });
    const list = el("ul", { class: "card list", "aria-label": "Groups" });
    const mark = (key) => buttons.forEach((b, own) => b.setAttribute("aria-current", String(own === key)));
    const show = (card, chosen) => {
      options.detail = { run: run.run, key: card.key, chosen, element: detail };
      mark(card.key);
      detail.replaceChildren(...group(run, card, data, options).filter(Boolean));
      if (chosen) detail.focus();
    };
    const seen = new Set();
    const part = (title, own) => {
      const fresh = own.filter((c) => !seen.has(c.key));
      if (!fresh.length) return;
      list.append(el("li", { class: "part" }, title));
      for (const card of fresh) {
        seen.add(card.key);
        const share = card.diagnostics && card.diagnostics.majority_ratio;
        const button = el("button", { type: "button", id: `card-${card.key}`, onclick: () => show(card, true) },
          el("span", { class: "id" }, card.group_id), el("span", { class: "sub" },
            `${run.unit === "step" ? `step ${card.place} · ` : ""}${known(share) ? `share ${num(share)}` : (card.error || {}).code || ""}`));
        buttons.set(card.key, button);
        list.append(el("li", {}, button));
      }
    };
    for (const reason of Object.keys(data.reasons)) part(sentence(data.reasons[reason].short), cards.filter((c) => c.why.includes(reason)));
    part("Others", cards);
    if (kept && (kept.chosen || kept.key === cards[0].key)) mark(kept.key);
    else if (cards.length) show(cards[0], false);
    const rest = run.groups - cards.length;
    return el("section", {},
      el("h2", {}, "Single groups"),
      el("p", { class: "lead" }, "The groups worth reading first, then others. ", rest > 0
        ? `Shown are ${count(cards.length)} of ${count(run.groups)} groups: at most eight of each kind and an even sample. The charts count all groups.` : ""),
      el("div", { class: "reader" }, list, detail));
  }

  function group(run, card, data, options) {
    const head = [
      el("h3", {}, card.group_id),
      el("div", { class: "chips" }, card.why.map((w) => el("span", { class: "chip why" }, data.reasons[w].meaning)),
        run.unit === "step" ? el("span", { class: "chip" }, `step ${card.place}`) : null,
        el("span", { class: "chip" }, plural(card.size, "rollout")), card.method ? el("span", { class: "chip" }, card.method) : null,
        card.left_out ? el("span", { class: "chip" }, "too long to show in full: texts or token entropies left out") : null,
        (card.flags || []).map((f) => el("span", { class: "chip" }, f))),
      known(card.prompt) ? el("div", { class: "prompt", tabindex: "0" }, card.prompt) : null,
    ];
    if (card.error) return [...head, el("p", { class: "problem" }, `${card.error.code}: ${card.error.message}`)];
    const place = el("div", {}, answers(card, card));
    return [...head, labels(card), place, ...(options.extras ? options.extras(card, place) : [])];
  }

  function labels(card) {
    const right = card.diagnostics && card.diagnostics.label_accuracy;
    return el("p", { class: "labelled" },
      el("span", {}, "Pseudo-label ", el("b", { class: "mono" }, known(card.pseudo_label) ? card.pseudo_label : "none"),
        known(right) ? el("b", { class: right ? "right" : "wrong" }, right ? " right" : " wrong") : null),
      known(card.label) ? el("span", {}, "Label ", el("b", { class: "mono" }, [].concat(card.label).join(" or "))) : null,
      Object.entries((card.diagnostics || {}).shadow || {}).map(([name, s]) => known(s.pseudo_label)
        ? el("span", {}, `${name} says `, el("b", { class: "mono" }, s.pseudo_label)) : null));
  }

  const meter = (kind, value, most, text) => {
    const bar = el("i");
    bar.style.width = `${Math.max(0, Math.min(100, (100 * (value || 0)) / (most || 1)))}%`;
    return el("span", { class: `meter ${kind}` }, bar, el("b", {}, text));
  };

  /** The paper's Figure 1: an answer a row, with its votes, its probability, its reward, and its rollouts' entropies. */
  function answers(card, reply) {
    const rows = [...(reply.support || [])].sort((a, b) => b.count - a.count);
    const size = card.size;
    const entropies = (card.mean_entropies || []).filter(known);
    const [low, high] = [Math.min(...entropies), Math.max(...entropies)];
    const digits = high - low < 0.05 ? 4 : 2;
    const reach = { low, high, at: (u) => `${high > low ? 2 + (96 * (u - low)) / (high - low) : 50}%` };
    const most = Math.max(...rows.map((r) => Math.max(r.count / size, r.p_hat || 0)), 1e-9);
    const pay = Math.max(...rows.map((r) => Math.abs(r.reward || 0)), 1e-9);
    const members = (answer) => (card.answers || []).map((a, i) => [a, i]).filter(([a]) => a === answer).map(([, i]) => i);
    const body = el("tbody");
    const add = (row) => {
      const own = members(row.answer), truths = own.map((i) => card.correct && card.correct[i]);
      const right = truths.length && truths.every(known) ? truths.filter(Boolean).length * 2 > truths.length : null;
      const more = el("tr", { hidden: true });
      const button = el("button", { type: "button", "aria-expanded": "false", title: "Show its rollouts", onclick: () => {
        const open = more.hidden;
        if (open && !more.childElementCount) more.append(el("td", { class: "inner", colspan: 5 }, own.map((i) => rollout(card, reply, i))));
        more.hidden = !open;
        button.setAttribute("aria-expanded", String(open));
      } }, row.answer === null ? "(no answer)" : row.answer);
      const tags = [row.kept === false ? "pruned" : null, row.answer === null ? "no vote" : null, right === null ? null : right ? "right" : "wrong", row.answer !== null && row.answer === reply.pseudo_label ? "pseudo-label" : null].filter(Boolean);
      body.append(el("tr", { class: row.answer === null ? "silent" : row.kept === false ? "gone" : null },
        el("td", { class: "answer" }, button, tags.length ? el("span", { class: `tag ${right === null ? "" : right ? "right" : "wrong"}` }, tags.join(" · ")) : null),
        el("td", { "data-name": "votes" }, meter("votes", row.count / size, most, count(row.count))),
        el("td", { "data-name": "p̂" }, known(row.p_hat) ? meter("phat", row.p_hat, most, num(row.p_hat, 3)) : "–"),
        el("td", { "data-name": "reward" }, known(row.reward) ? meter("pay", Math.abs(row.reward), pay, num(row.reward, 3)) : "–"),
        el("td", { class: "entropies", "data-name": `entropy, ${num(low, digits)} to ${num(high, digits)} nats` }, dots(card, own, row, reach))), more);
    };
    rows.slice(0, SHOWN).forEach(add);
    const silent = members(null).length;
    if (rows.length > SHOWN) {
      const rest = rows.slice(SHOWN);
      const button = el("button", { type: "button", class: "button", onclick: () => { button.closest("tr").remove(); rest.forEach(add); } }, `${plural(rest.length, "more answer")}, ${plural(rest.reduce((n, r) => n + r.count, 0), "vote")}`);
      body.append(el("tr", {}, el("td", { colspan: 5 }, button)));
    }
    if (silent) add({ answer: null, count: silent, uncertainty: null, p_hat: null, reward: 0, kept: null });
    const marks = [["pruned", rows.some((r) => r.kept === false), "grey: pruned"], ["silent", silent, "hatched: no answer, and no vote"]].filter(([, on]) => on);
    const key = marks.length ? el("div", { class: "key" }, marks.map(([kind, , text]) => el("span", {}, el("i", { class: `swatch ${kind}` }), text))) : null;
    return el("div", {}, key, el("table", { class: "answers" },
      el("caption", { class: "sr" }, "Answers with votes, probability, reward and entropies"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "answer"), el("th", { scope: "col" }, "votes"),
        el("th", { scope: "col" }, "p̂, weighted share"), el("th", { scope: "col" }, "reward"),
        el("th", { scope: "col" }, "entropy of its rollouts, nats", entropies.length ? el("div", { class: "axis" }, el("span", {}, num(low, digits)), el("span", {}, num(high, digits))) : null))),
      body));
  }

  function dots(card, own, row, reach) {
    const values = own.map((i) => [(card.mean_entropies || [])[i], card.correct && card.correct[i]]).filter(([u]) => known(u));
    if (!values.length) return "–";
    const us = values.map(([u]) => u), x = reach.at;
    const said = `${plural(us.length, "rollout")}, entropy ${num(Math.min(...us))} to ${num(Math.max(...us))} nats, mean ${num(mean(us))}`;
    return el("svg", { class: "dots", role: "img", "aria-label": said },
      el("line", { x1: "0%", x2: "100%", y1: 13, y2: 13 }),
      values.map(([u, right], k) => el("circle", { cx: x(u), cy: 13 + ((k * 7) % 11) - 5, r: 3.4,
        class: row.answer === null ? "is-silent" : row.kept === false ? "is-gone" : known(right) ? (right ? "is-right" : "is-wrong") : null })),
      el("line", { class: "mean", x1: x(mean(us)), x2: x(mean(us)), y1: 3, y2: 23 }));
  }

  function rollout(card, reply, i) {
    const at = (name, from = card) => (from[name] ? from[name][i] : null);
    const facts = [["reward", num(at("rewards", reply), 4)], ["advantage", num(at("advantages", reply), 3)], ["entropy", known(at("mean_entropies")) ? `${num(at("mean_entropies"), 4)} nats` : "–"],
      ["tokens", known(at("num_tokens")) ? count(at("num_tokens")) : "–"], ["trained", at("trained") === false ? "no" : "yes"]];
    const truth = at("correct"), text = at("texts"), trace = at("token_entropies");
    return el("div", { class: "rollout" },
      el("div", { class: "row" }, el("b", {}, `#${i}`), facts.filter(([, v]) => v !== "–").map(([k, v]) => el("span", {}, `${k} `, el("b", {}, v))),
        known(truth) ? el("b", { class: truth ? "right" : "wrong" }, truth ? "right" : "wrong") : null),
      trace && trace.length ? tokens(trace) : null,
      known(text) ? el("details", {}, el("summary", {}, "Text"), el("pre", {}, text)) : null);
  }

  function tokens(trace) {
    const top = Math.max(...trace);
    const box = el("div", { class: "trace", role: "img", "aria-label": `Entropy of ${trace.length} tokens, highest ${num(top)} nats at token ${trace.indexOf(top)}` });
    trace.forEach((u, i) => {
      const cell = el("i", { title: `token ${i}: ${num(u)} nats` });
      cell.style.opacity = String(0.07 + 0.93 * Math.min(1, u / 2));
      box.append(cell);
    });
    return box;
  }

  // --- the page -------------------------------------------------------------------------------------------------------

  function facts(run, data) {
    const steps = run.columns.step.length;
    return el("div", { class: "facts" },
      el("span", {}, el("b", {}, count(run.groups)), run.groups === 1 ? " group" : " groups"), el("span", {}, el("b", {}, count(run.rollouts)), " rollouts"),
      el("span", {}, el("b", {}, count(steps)), ` ${steps === 1 ? run.unit : run.unit === "step" ? "steps" : `points of a ${run.unit}`}`),
      run.errors ? el("span", { class: "wrong" }, `${count(run.errors)} not scored`) : null,
      el("span", {}, run.methods.slice(0, 3).map(([name, id], i) => [i ? ", " : "", el("b", {}, name), id ? el("code", {}, ` ${id}`) : ""]), run.methods.length > 3 ? ` and ${run.methods.length - 3} more` : ""),
      Object.entries(run.estimates).map(([source, n]) => el("span", {}, `entropies of ${plural(n, "group")} estimated (${source})`)),
      el("span", {}, run.labelled ? "with labels" : "without labels"));
  }

  /** Draw the view; `options`: which run (`run`), and what stands below a group (`extras`). What is open stays so. */
  function draw(data, options = {}) {
    const page = document.getElementById("page"), focused = document.activeElement, before = document.querySelector(".list");
    plots.splice(0).forEach((p) => p.made && p.made.destroy());
    const run = data.runs.find((r) => r.run === options.run) || data.runs[0];
    const chooser = data.runs.length < 2 ? null : el("p", { class: "runs" }, el("label", { for: "run" }, "Run"),
      el("select", { id: "run", onchange: (e) => { options.run = data.runs[e.target.selectedIndex].run; draw(data, options); } },
        data.runs.map((r) => el("option", { selected: r === run }, r.run || "(no name)"))));
    const curves = run.columns.step.length > 1;
    page.replaceChildren(...[
      el("h1", {}, (data.runs.length > 1 || data.live ? run.run : data.title) || data.title || "Unnamed run"),
      facts(run, data), chooser,
      el("h2", { id: "verdict", tabindex: "-1" }, "Verdict"),
      el("p", { class: "note" }, "The verdict on the run comes from rules that see no label. They are heuristics: docs/report.md says how they did on runs that collapse. No label-free rule can see that prompts agree on wrong answers, each on its own. A few dozen labelled prompts can."),
      verdicts(run, data.rules), ...tiles(run, data.tiles),
      run.verdict.rule === "one-set" ? null : el("section", {}, el("h2", {}, "Over steps"),
        el("p", { class: "lead" }, curves ? "Move over a chart to read all of them at that step. A click on a name in a legend hides its curve." : "All groups belong to one step: there is nothing to draw over time."),
        curves ? shadeKey(run, data.rules) : null, curves ? charts(run, data.charts, data.rules) : null),
      shadows(run), groups(run, data, options),
      el("footer", {}, [data.source, data.made, `dare-reward ${data.version}`, "charts by uPlot (MIT)"].filter(Boolean).join(" · ")),
    ].filter(Boolean));
    document.title = clean(`${run.verdict.word}: ${run.run || data.title || "run"}`);
    drawPlots();
    if (before) document.querySelector(".list").scrollTop = before.scrollTop;
    const again = focused.isConnected ? focused : focused.id && document.getElementById(focused.id);
    if (again && again !== document.body) again.focus({ preventScroll: true });
  }

  let width = window.innerWidth, timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; drawPlots(); } }, 150);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlots);

  const block = document.getElementById("data");
  if (block) draw(JSON.parse(block.textContent));
  return { answers, draw, el, num, table };
})();
