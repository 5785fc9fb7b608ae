"use strict";
// Draws a view (dare_reward/report/view.py) into the page. Whatever a rollout says becomes text, never markup: `el` has
// no other way, and the page's policy forbids the rest.
window.dareReport = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
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
  const SVG_TAGS = new Set(["circle", "line", "polyline"]);

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

  /** Something that opens; what is open stays so when the page is drawn again. `fill` makes its content once. */
  function fold(key, summary, fill) {
    const box = el("details", { open: opened.has(key) }, el("summary", { id: key }, summary));
    box.addEventListener("toggle", () => {
      opened[box.open ? "add" : "delete"](key);
      if (box.open && box.childElementCount === 1) box.append(fill());
      drawNew();
    });
    return box;
  }
  const opened = new Set();

  /** A command to copy. Browsers offer the clipboard only on https and localhost: elsewhere it is marked. */
  function command(text) {
    const code = el("code", {}, text), said = el("button", { type: "button", class: "button", onclick: async () => {
      try { await navigator.clipboard.writeText(text); said.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(code); said.textContent = "Selected"; }
    } }, "Copy");
    return el("div", { class: "command" }, el("pre", { tabindex: "0" }, code), said);
  }

  /** The course of a column, without axes. One that hardly moves is drawn as level. */
  function spark(column, tone) {
    const all = column.map((y, x) => [x, y]).filter(([, y]) => known(y)), stride = Math.ceil(all.length / 80);
    if (all.length < 2) return el("span", { class: "spark" });
    const found = all.filter((_, i) => i % stride === 0 || i === all.length - 1), ys = found.map(([, y]) => y);
    const low = Math.min(...ys), span = Math.max(Math.max(...ys) - low, 0.04 * Math.max(...ys.map(Math.abs)), 1e-9);
    const points = found.map(([x, y]) => `${((100 * x) / (column.length - 1)).toFixed(1)},${(22 - (20 * (y - low)) / span).toFixed(1)}`);
    return el("svg", { class: `spark ${tone || ""}`, viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
      el("polyline", { points: points.join(" ") }));
  }

  // --- runs -----------------------------------------------------------------------------------------------------------

  /** What a run's spark shows: pass@1 where there are labels. */
  const course = (run) => ["pass@1", "majority_ratio"].find((key) => run.columns[key].some(known));

  function rail(data, run, others, options) {
    if (data.runs.length < 2) return null;
    return el("nav", { class: "rail", "aria-label": "Runs" }, el("ul", {}, data.runs.map((own, i) => {
      const key = course(own), [early, now] = key ? ends(own.columns[key]) : [];
      return el("li", {}, el("button", { type: "button", id: `run-${i}`, class: "card", "aria-current": String(own === run),
        onclick: () => { options.run = own.run; draw(data, options); } },
      el("span", { class: "id" }, own.run || "(no name)"),
      el("span", { class: `word ${own.headline.tone}` }, own.headline.word),
      el("span", { class: "sub" }, `${own.methods.map(([name]) => name).join(", ") || "no method"} · ${plural(own.columns.step.length, own.unit === "step" ? "step" : "point")}`),
      key ? el("span", { class: "course" }, spark(own.columns[key], own.headline.tone),
        el("span", { class: "sub" }, `${key === "pass@1" ? key : "majority"} ${num(early)} → ${num(now)}`)) : null), overlay(own, i, run, others, data, options));
    })));
  }

  const TONES = ["main", "warn", "other", "good", "bad", "quiet"]; // of runs over one another

  /** The runs that are drawn over this one, in the order of the list. */
  const overlaid = (data, run, options) => data.runs.filter((r) => r !== run && options.over.has(r.run) && r.columns.step.length > 1);

  function overlay(own, i, run, others, data, options) {
    if (own === run || own.columns.step.length < 2 || run.columns.step.length < 2) return null;
    const change = (e) => { options.run = run.run; options.over[e.target.checked ? "add" : "delete"](own.run); draw(data, options); };
    return el("label", { class: `over ${TONES[(others.indexOf(own) + 1) % TONES.length]}` },
      el("input", { type: "checkbox", id: `over-${i}`, checked: others.includes(own), onchange: change }), " draw over",
      el("span", { class: "sr" }, ` this run: ${own.run || "(no name)"}`));
  }

  // --- verdict --------------------------------------------------------------------------------------------------------

  const SENTENCES = {
    "one-answer-everywhere": "Different prompts are getting the same answer.",
    "answers-vanish": "Rollouts stop giving an answer.",
    "nothing-left-to-learn": "Nearly every group agrees with itself: its rewards are equal and teach nothing more.",
    "agreement-rises": "Rollouts of a prompt come to one answer, as in every run that trains on agreement. Only labels can say whether it is the right one.",
    "no-rule-fires": "No label-free rule fires.",
    "too-few-steps": "There are too few steps to compare.",
    "accuracy-fell": "Prompts are right less often than on their first visit.",
    "accuracy-rose": "Prompts are right more often than on their first visit.",
    "accuracy-unclear": "Prompts are right about as often as on their first visit.",
    "too-few-visits": "Too few labelled prompts were seen twice to separate a rise or a fall from chance.",
  };

  function verdict(about, found, rules, extra) {
    return el("section", { class: `card verdict ${found.tone}` },
      el("h3", {}, about), el("p", { class: "word" }, sentence(found.word)),
      el("p", {}, SENTENCES[found.rule], extra ? ` ${extra}` : null), el("p", { class: "why" }, sentence(found.why), "."),
      fold(`rule-${slug(about)}`, ["Rule ", el("code", {}, found.rule)], () => el("p", { class: "why" }, sentence(rules[found.rule].meaning), ".")));
  }

  function verdicts(run, rules) {
    const { since, rule } = run.verdict, falls = run.accuracy.word === "falls";
    const first = known(since) && rule !== "no-rule-fires" ? `The rule has fired since ${stepName(run, since)}.` : "";
    const cards = [verdict("The run, without labels", run.verdict, rules, first)];
    if (run.labelled) cards[falls ? "unshift" : "push"](verdict("Accuracy, by the labels", run.accuracy, rules));
    if (run.calibration) cards.unshift(el("section", { class: "card verdict quiet" }, el("h3", {}, "What to train with"),
      el("p", { class: "word" }, run.calibration.headline), el("p", {}, run.calibration.why), fold("rests", "What it rests on", () => el("div", {}, rests(run.calibration)))));
    return el("div", { class: "verdicts" }, cards);
  }

  /** Means of the first and of the last three steps that know the measure. */
  function ends(column) {
    const found = column.filter(known);
    return found.length > 5 ? [mean(found.slice(0, 3)), mean(found.slice(-3))] : [found[0], found[found.length - 1]];
  }

  /** 1 or -1 where the last steps lie above or below the first ones by more than twice the noise of such a difference. */
  function direction(column) {
    const found = column.filter(known), [early, now] = ends(column);
    const noise = Math.sqrt((mean(found.slice(1).map((y, i) => (y - found[i]) ** 2)) || 0) / 3);
    return found.length > 5 && Math.abs(now - early) > Math.max(2 * noise, 0.005) ? Math.sign(now - early) : 0;
  }

  function tiles(run, all) {
    const several = run.columns.step.length > 5;
    const shown = all.filter(([key]) => run.columns[key].some(known));
    const list = el("dl", { class: "card tiles", "aria-label": "Measures, early and now" }, shown.map(([key, name]) => {
      const column = run.columns[key], [early, now] = ends(column), way = direction(column);
      return el("div", { class: "tile" }, el("dt", {}, name), el("dd", { class: "now" }, num(now)),
        several ? [el("dd", { class: "course" }, spark(column)), el("dd", { class: "sub" },
          el("span", { "aria-hidden": "true" }, way > 0 ? "↑ " : way < 0 ? "↓ " : ""), el("span", { class: "sr" }, way > 0 ? "up " : way < 0 ? "down " : ""), `from ${num(early)}`)] : null);
    }));
    return [list, several ? el("p", { class: "note" }, "The last 3 steps beside the first 3. An arrow marks a difference of more than twice the noise between steps.") : null];
  }

  // --- charts ---------------------------------------------------------------------------------------------------------

  const plots = []; // of the page as it stands
  const hidden = new Set(); // curves that a click on the legend took away
  const chosen = new Map(); // by chart, the curve by which runs are compared

  const stepName = (run, i) => `${run.unit === "step" ? "step" : run.unit.replace(/s$/, "")} ${run.columns.step[i]}`;

  /** The charts that have something to show: the first by itself, five others, and the rest folded. */
  function charts(run, others, all) {
    const wanted = [...all, ...run.charts].filter((c) => (!c.labelled || run.labelled) && c.curves.some((k) => run.columns[k.key].some(known)));
    const cards = (part) => el("div", { class: "charts" }, part.map((chart) => chartCard(run, others, chart, false)));
    const rest = wanted.slice(6);
    return [chartCard(run, others, wanted[0], true), el("div", {}, cards(wanted.slice(1, 6)),
      rest.length ? fold("more-charts", `${plural(rest.length, "more chart")}: ${rest.map((c) => c.title).join(", ")}`, () => cards(rest)) : null)];
  }

  /** A curve of one run in a chart: its values at `steps`, and the place of the run's last step. */
  function curveOf(run, { key, name, tone }, steps, id) {
    const at = new Map(run.columns.step.map((step, i) => [step, i])), column = run.columns[key] || [];
    return { id, key, tone, name: key === "pass@k" ? `pass@${run.k}` : name, y: steps.map((step) => (at.has(step) ? column[at.get(step)] : null)),
      last: steps.indexOf(run.columns.step[run.columns.step.length - 1]) };
  }

  /** One run with all its curves; or, with others drawn over it, one curve of each run, which a list chooses. */
  function chartCard(run, others, chart, first) {
    const own = chart.curves.filter((c) => run.columns[c.key].some(known)), runs = [run, ...others];
    const one = own.find((c) => c.key === (chosen.get(chart.name) || "pass@1")) || own[0];
    const steps = [...new Set(runs.flatMap((r) => r.columns.step))].sort((a, b) => a - b);
    const curves = others.length
      ? runs.map((r, i) => ({ ...curveOf(r, { ...one, tone: TONES[i % TONES.length] }, steps, `run:${r.run}`), name: r.run || "(no name)" }))
      : own.map((c) => curveOf(run, c, steps, `${chart.name}:${c.key}`));
    const said = own.map((c) => { const [a, b] = ends(run.columns[c.key]); return `${c.name} from ${num(a)} to ${num(b)}`; });
    const plot = { run, several: others.length > 0, chart, steps, curves, first, place: el("div", { class: "plot", role: "img", "aria-label": `${chart.title}: ${said.join("; ")}` }) };
    plot.at = el("span", { class: "at" });
    plot.buttons = curves.map((c) => {
      const button = el("button", { type: "button", id: `curve-${chart.name}-${c.id}`, title: "Show or hide", "aria-pressed": String(!hidden.has(c.id)), onclick: () => {
        const off = !hidden.delete(c.id) && hidden.add(c.id);
        button.setAttribute("aria-pressed", String(!off));
        drawPlot(plot);
      } }, el("i", { class: `swatch ${c.tone}` }), c.name, el("b", { class: "value" }));
      return button;
    });
    const choice = others.length && own.length > 1 ? el("select", { id: `choice-${chart.name}`, "aria-label": `The curve of ${chart.title}`, onchange: (e) => {
      chosen.set(chart.name, own[e.target.selectedIndex].key);
      card.replaceWith(chartCard(run, others, chart, first));
      drawNew();
    } }, own.map((c) => el("option", { selected: c === one }, c.name))) : null;
    plots.push(plot);
    const card = el("figure", { class: `card chart ${first ? "first" : ""}` },
      el("h3", {}, chart.title, " ", el("span", {}, chart.unit)), el("p", {}, chart.meaning), choice, plot.place, el("div", { class: "legend" }, plot.at, plot.buttons),
      fold(`table-${chart.name}`, ["Table", el("span", { class: "sr" }, ` of ${chart.title}`)], () => el("div", { class: "scroll", tabindex: "0" }, table(
        [run.unit, "groups", ...own.map((c) => c.name)],
        run.columns.step.map((s, i) => [s, run.columns.groups[i], ...own.map((c) => num(run.columns[c.key][i], 3))]), { caption: chart.title }))));
    return card;
  }

  const there = () => plots.filter((plot) => plot.place.isConnected);
  const drawPlots = () => there().forEach(drawPlot);
  const drawNew = () => there().filter((plot) => !plot.made).forEach(drawPlot);

  function drawPlot(plot) {
    const { place, run, chart, curves, steps, first } = plot, share = chart.unit === "share";
    const soft = colour("--soft"), line = colour("--line"), shown = curves.filter((c) => !hidden.has(c.id));
    const axis = { stroke: soft, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const points = (values) => steps.length <= 30 || values.some((v, i) => known(v) && !known(values[i - 1]) && !known(values[i + 1]));
    const curve = ({ tone, y }) => { const stroke = colour(`--${tone}`); return { stroke, width: 1.75, spanGaps: plot.several, points: { show: points(y), size: 4, fill: stroke, width: 0 } }; };
    if (plot.made) plot.made.destroy();
    plot.made = new uPlot({
      width: Math.max(place.clientWidth, 200), height: first ? Math.min(place.clientHeight, 560) : 184, legend: { show: false },
      cursor: { sync: { key: "steps" }, y: false, points: { size: 7 } },
      scales: { x: { time: false }, y: share ? { range: [0, 1.02] } : { range: (u, low, high) => yRange(low, high) } },
      axes: [{ ...axis, size: 22, gap: 3, label: run.stepped ? "step" : run.unit, labelSize: 16, labelGap: 0, grid: { show: false }, space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
        { ...axis, size: 42, gap: 4, values: (u, vs) => vs.map((v) => (share ? v.toFixed(1) : String(Number(v.toPrecision(6))))), space: 30,
          ...(share ? { splits: [0, 0.2, 0.4, 0.6, 0.8, 1] } : {}) }],
      series: [{}, ...shown.map(curve)],
      hooks: { setCursor: [(u) => values(plot, u.cursor.idx)], drawClear: [(u) => shade(u, plot)], draw: [(u) => marks(u, plot)] },
    }, [steps, ...shown.map((c) => c.y)], place);
    values(plot, null);
  }

  /** The legend's numbers: of the step that somebody points at, else of each run's last. */
  function values({ run, steps, curves, at, buttons }, pointed) {
    at.textContent = `${run.stepped ? "step" : "block"} ${steps[known(pointed) ? pointed : curves[0].last]}`;
    buttons.forEach((button, i) => { button.querySelector(".value").textContent = num(curves[i].y[known(pointed) ? pointed : curves[i].last], 3); });
  }

  const yRange = (low, high) => {
    const top = high > 0 ? high * 1.08 : 1;
    return [low < 0 ? low * 1.08 : 0, top];
  };

  /** Behind the curves: the steps at which a rule fires. */
  function shade(u, { run }) {
    const { ctx, bbox } = u, xs = run.columns.step;
    ctx.save();
    ctx.globalAlpha = 0.09;
    run.states.forEach((rule, i) => {
      if (!rule || rule === "no-rule-fires") return;
      const left = u.valToPos(i ? (xs[i - 1] + xs[i]) / 2 : xs[i], "x", true);
      const right = u.valToPos(i + 1 < xs.length ? (xs[i] + xs[i + 1]) / 2 : xs[i], "x", true);
      ctx.fillStyle = colour(`--${run.tones[rule]}`);
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    });
    ctx.restore();
  }

  /** Over them: the level to compare with, and the steps of events with their words. */
  function marks(u, { run, chart }) {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    const stroke = (tone, x0, y0, x1, y1) => {
      ctx.strokeStyle = colour(tone);
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.lineTo(x1, y1);
      ctx.stroke();
    };
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    if (known(chart.level)) { const y = u.valToPos(chart.level, "y", true); stroke("--faint", bbox.left, y, bbox.left + bbox.width, y); }
    run.events.forEach(({ at, word, tone }, i) => {
      const x = u.valToPos(run.columns.step[at], "x", true), wide = ctx.measureText(word).width + 8 * ratio;
      const y = bbox.top + (2 + 14 * i) * ratio, left = x + wide > bbox.left + bbox.width;
      stroke(`--${tone}`, x, bbox.top, x, bbox.top + bbox.height);
      ctx.globalAlpha = 0.8;
      ctx.fillStyle = colour("--card");
      ctx.fillRect(left ? x - wide : x + ratio, y - ratio, wide, 13 * ratio);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour(`--${tone}`);
      ctx.textAlign = left ? "right" : "left";
      ctx.fillText(word, x + (left ? -4 : 4) * ratio, y);
    });
    ctx.restore();
  }

  function shadeKey(run, rules) {
    const fired = [...new Map(run.states.filter((r) => r && r !== "no-rule-fires").map((r) => [rules[r].word, rules[r].tone]))];
    return fired.length ? el("p", { class: "key" }, fired.map(([word, tone]) => el("span", {}, el("i", { class: `swatch shade ${tone}` }), `shaded: the run was ${word}`))) : null;
  }

  // --- shadow methods -------------------------------------------------------------------------------------------------

  /** In words: what each would have chosen otherwise, and who was right. */
  function shadows(run) {
    if (!run.shadows.length) return null;
    const own = run.methods.length ? run.methods[0][0] : "the run's method";
    const item = (s) => {
      const name = s.method === "ttrl" ? ["The vote (", el("b", {}, s.method), ")"] : el("b", {}, s.method);
      return el("li", {}, el("p", {}, name, s.differs ? ` chooses another label in ${count(s.differs)} of ${plural(s.groups, "group")}` : ` chooses the same label in all ${plural(s.groups, "group")}`,
        s.judged ? `. Where the truth is known, it is right in ${count(s.theirs)} of these and ${own} in ${count(s.ours)}` : "", "."),
      s.labelled || known(s.flipped) ? el("p", { class: "note" },
        s.labelled ? `Right labels: ${s.method} ${count(s.right)} of ${count(s.labelled)}, ${own} ${count(s.right_ours)}. ` : "",
        known(s.flipped) ? `It would give ${num(100 * s.flipped, 0)}% of the rollouts an advantage of the other sign.` : "") : null);
    };
    return el("section", {}, el("h2", {}, "What other methods would have said"),
      run.calibration ? el("p", { class: "note" }, "Counts of these groups, each method with parameters that no label chose. The verdict is above.") : null,
      el("ul", { class: "card said" }, run.shadows.map(item)));
  }

  /** What stands below the headline of a finding (dare_reward/analysis/shown.py). */
  const rests = ({ notes, line, head, rows }) => [notes.map((note) => el("p", { class: "note" }, note)), line ? command(line) : null,
    rows.length ? el("div", { class: "scroll" }, table(head, rows, { caption: head[0], numeric: (i) => i > 0 })) : null];

  /** Of the gain in pass@1, what was sharpened, learnt and lost. */
  const ledger = (found) => el("section", { class: "card finding" }, el("h2", {}, found.headline), el("p", {}, found.why), rests(found));

  // --- single groups --------------------------------------------------------------------------------------------------

  function groups(run, data, options) {
    const cards = run.cards, buttons = new Map();
    const kept = options.detail && options.detail.run === run.run ? options.detail : null;
    const detail = kept ? kept.element : el("div", { class: "card", id: "group", tabindex: "-1" });
    const list = el("ul", { class: "card list", "aria-label": "Groups" });
    const mark = (key) => buttons.forEach((b, own) => b.setAttribute("aria-current", String(own === key)));
    const show = (card, chosen) => {
      options.detail = { run: run.run, key: card.key, chosen, element: detail };
      if (chosen) options.run = run.run; // whoever reads a run stays with it
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
        card.left_out ? el("span", { class: "chip" }, "too long to show in full: texts left out") : null,
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
    const quiet = members(null), silent = Object.values((card.diagnostics || {}).no_answer || {}).reduce((n, k) => n + k, 0) || quiet.length;
    if (rows.length > SHOWN) {
      const rest = rows.slice(SHOWN);
      const button = el("button", { type: "button", class: "button", onclick: () => { button.closest("tr").remove(); rest.forEach(add); } }, `${plural(rest.length, "more answer")}, ${plural(rest.reduce((n, r) => n + r.count, 0), "vote")}`);
      body.append(el("tr", {}, el("td", { colspan: 5 }, button)));
    }
    if (silent) add({ answer: null, count: silent, uncertainty: null, p_hat: null, reward: mean(quiet.map((i) => (reply.rewards || [])[i])), kept: null });
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
    const truth = at("correct"), text = at("texts");
    return el("div", { class: "rollout" },
      el("div", { class: "row" }, el("b", {}, `#${i}`), facts.filter(([, v]) => v !== "–").map(([k, v]) => el("span", {}, `${k} `, el("b", {}, v))),
        known(truth) ? el("b", { class: truth ? "right" : "wrong" }, truth ? "right" : "wrong") : null),
      known(text) ? el("details", {}, el("summary", {}, "Text"), el("pre", {}, text)) : null);
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

  /** Draw the view; `options`: which run (`run`) under which (`over`), and what stands below a group (`extras`). */
  function draw(data, options = {}) {
    const page = document.getElementById("page"), focused = document.activeElement, scrolled = [".list", ".rail ul"].map((q) => { const old = document.querySelector(q); return [q, old && [old.scrollLeft, old.scrollTop]]; });
    plots.splice(0).forEach((p) => p.made && p.made.destroy());
    options.over = options.over || new Set();
    const run = data.runs.find((r) => r.run === options.run) || data.runs[0], others = overlaid(data, run, options);
    run.tones = Object.fromEntries(Object.entries(data.rules).map(([name, { tone }]) => [name, tone]));
    const once = run.verdict.rule === "one-set", worst = run.headline, label = run.calibration;
    const [first, more] = once || run.columns.step.length < 2 ? [null, null] : charts(run, others, data.charts);
    const content = el("div", { class: "content" },
      el("h1", {}, (data.runs.length > 1 || data.live ? run.run : data.title) || data.title || "Unnamed run"), facts(run, data),
      el("h2", { id: "verdict", tabindex: "-1", class: `headline ${worst.tone}` }, worst.text, known(worst.since) ? el("span", {}, `, seen since ${stepName(run, worst.since)}.`) : ".", once && label ? el("span", {}, ` ${label.why}`) : null),
      once ? label && el("section", { class: "card finding" }, rests(label)) : el("div", { class: first ? "front" : null }, verdicts(run, data.rules), first),
      run.learnt ? ledger(run.learnt) : null,
      once ? null : el("p", { class: "note" }, "Words without labels come from rules that are heuristics: docs/report.md says how they did on runs that collapse. No such rule sees prompts agree on wrong answers, each on its own. A few dozen labelled prompts do."),
      tiles(run, data.tiles),
      once ? null : el("section", {}, el("h2", {}, "Over steps"), more ? [el("p", { class: "note" }, `Point at a chart to read all of them at that step. A name below a chart hides its curve.${others.length ? " Each colour is a run." : ""}`), shadeKey(run, data.rules), more]
        : el("p", { class: "note" }, "All groups belong to one step: there is nothing to draw over time.")),
      shadows(run), groups(run, data, options),
      el("footer", {}, [data.source, data.made, `dare-reward ${data.version}`, "charts by uPlot (MIT)"].filter(Boolean).join(" · ")));
    const side = rail(data, run, others, options);
    page.className = side ? "railed" : "";
    page.replaceChildren(...[side, content].filter(Boolean));
    document.title = clean(`${worst.word}: ${run.run || data.title || "run"}`);
    drawPlots();
    for (const [q, old] of scrolled) if (old) document.querySelector(q)?.scrollTo(old[0], old[1]);
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
  return { answers, command, draw, el, num, table };
})();
