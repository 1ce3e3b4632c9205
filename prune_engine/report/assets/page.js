"use strict";
(() => {
  const root = document.documentElement;
  const nonce = document.currentScript.nonce;
  const drawn = new Set();
  let data = null;

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  /* ---- figures ---- */

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  /** A copy in which names such as $best are the theme's colours. */
  function themed(node) {
    if (typeof node === "string") return /^\$[a-z]+\d?$/.test(node) ? colour(node.slice(1)) : node;
    if (Array.isArray(node)) return node.map(themed);
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, themed(v)]));
    return node;
  }

  function axis(own, isTight) {
    const grid = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
    const all = { ...grid, ...own };
    if (all.title) all.title = { standoff: 8, ...all.title, font: { size: isTight ? 11 : 12 } };
    return all;
  }

  function layoutOf(figure, width) {
    const isTight = width < 480;
    const own = themed(figure.layout);
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: false, width,
      font: { family: getComputedStyle(document.body).fontFamily, size: isTight ? 11 : 12, color: colour("ink") },
      margin: { l: 8, r: 12, t: 12, b: 8 }, hoverlabel: { align: "left" },
      legend: { orientation: "h", y: 1.01, yanchor: "bottom", x: 0, font: { size: 11 } },
      ...own, xaxis: axis(own.xaxis, isTight), yaxis: axis(own.yaxis, isTight),
    };
  }

  function draw(element, width) {
    const figure = data && window.Plotly && data.figures[element.dataset.figure];
    width = Math.floor(width || element.clientWidth);
    if (!figure || width < 40) return;
    const config = { displaylogo: false, displayModeBar: false, responsive: false, staticPlot: false, scrollZoom: false, showTips: false };
    Plotly.react(element, themed(figure.data), layoutOf(figure, width), config);
    drawn.add(element);
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
  }, { rootMargin: "600px" });

  const redraw = (width) => { for (const element of drawn) if (element.clientWidth) draw(element, width); };
  let waiting = 0;
  let lastWidth = window.innerWidth;
  addEventListener("resize", () => {
    if (window.innerWidth === lastWidth) return; // a phone's address bar moved
    lastWidth = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => redraw(), 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

  /* ---- printing: everything open and drawn, as wide as the paper ---- */

  let closed = [];
  function openAll() {
    if (closed.length) return;
    closed = [...document.querySelectorAll("main details:not([open]):not(.chains)")];
    for (const one of closed) one.open = true;
    for (const element of document.querySelectorAll(".plot")) draw(element, element.closest(".grid") ? 330 : 680);
  }
  addEventListener("beforeprint", openAll);
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
    closed = [];
    redraw();
  });

  /* ---- tables ---- */

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  };

  function compare(a, b) {
    const [isA, isB] = [typeof a === "number", typeof b === "number"];
    if (isA !== isB) return isA ? -1 : 1; // what is unknown comes last
    return isA ? a - b : String(a).localeCompare(String(b));
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isDown = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        table.querySelectorAll("tr.under").forEach((row) => row.remove());
        table.querySelectorAll("tr.open").forEach((row) => row.classList.remove("open"));
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (isDown ? -1 : 1) * compare(keyOf(a, column), keyOf(b, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }
  document.querySelectorAll("table.sortable").forEach(sortable);

  const search = document.getElementById("search");
  search?.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    let n = 0;
    for (const one of document.querySelectorAll("[data-name]")) {
      one.hidden = !one.dataset.name.toLowerCase().includes(wanted);
      if (one.matches("tr") && !one.hidden) n += 1;
    }
    document.getElementById("found").textContent = wanted ? `${n} found` : "";
  });

  /* ---- opening a kernel by its link ---- */

  function openLinked() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.matches("details")) target.open = true;
  }
  addEventListener("hashchange", openLinked);

  /* ---- decision chains ---- */

  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  }

  const number = (value, digits = 4) => (value === null ? "–" : String(Number(value.toPrecision(digits))));
  const text = (i) => data.texts[i];
  const STAGES = { transfer: "Transfer", task_space: "Space rules", rule: "Rules", draft: "Draft", verify: "Verifier", select: "Selection", measure: "Measuring", proposed: "Proposed", forecast: "Forecast" };

  function chainOf(candidate) {
    const list = element("ol", "chain");
    for (const [stage, strategy, outcome, reason, basis, evidence] of candidate[7]) {
      const name = STAGES[text(stage)] ?? text(stage);
      const told = text(stage) === "proposed" ? `: in ${text(strategy)}` : text(stage) === "forecast" ? `: by ${text(strategy)}, ${text(reason)}` : `: ${text(outcome)} by ${text(strategy)}, ${text(reason)}`;
      const item = element("li", "", element("b", "", name), told);
      const shown = [];
      for (let i = 0; i < evidence.length; i += 2) shown.push(`${text(evidence[i])} ${number(evidence[i + 1])}`);
      if (text(basis)) shown.push(text(stage) === "proposed" ? text(basis) : `rests on ${text(basis)}`);
      if (shown.length) item.append(element("div", "evidence", shown.join(", ")));
      list.append(item);
    }
    const end = candidate[2] === null ? text(candidate[3]).replaceAll("_", " ") : `${number(candidate[2])} ms, ${text(candidate[3])}`;
    list.append(element("li", "", element("b", "", "Result"), `: ${end}`));
    if (!candidate[7].length) list.prepend(element("li", "", "No decision on it is recorded: it was measured before decisions were, or came from elsewhere."));
    return list;
  }

  function candidateTable(rows) {
    const table = element("table", "sortable");
    const head = table.createTHead().insertRow();
    for (const [label, isNumber] of [["trial", 1], ["candidate", 0], ["latency, ms", 1], ["result", 0], ["chosen as", 0], ["draft, ms", 1], ["verifier, ms", 1]]) {
      head.append(element("th", isNumber ? "n" : "", label));
    }
    const body = table.createTBody();
    const best = Math.min(...rows.map((row) => (row[2] === null || text(row[3]) !== "measured" ? Infinity : row[2])));
    for (const row of rows) {
      const line = body.insertRow();
      const pick = element("button", "pick", row[0]);
      pick.type = "button";
      pick.setAttribute("aria-expanded", "false");
      const cells = [String(row[1]), pick, number(row[2]), text(row[3]).replaceAll("_", " "), text(row[4]) || "–", number(row[5]), number(row[6])];
      cells.forEach((cell, i) => line.append(element("td", [0, 2, 5, 6].includes(i) ? "n" : "", cell)));
      if (row[2] === best) line.cells[2].append(" ★");
      line.cells[2].dataset.sort = row[2] ?? "";
      pick.addEventListener("click", () => {
        const isOpen = line.nextElementSibling?.classList.contains("under");
        pick.setAttribute("aria-expanded", String(!isOpen));
        line.classList.toggle("open", !isOpen);
        if (isOpen) { line.nextElementSibling.remove(); return; }
        const under = element("tr", "under open");
        const cell = element("td", "", chainOf(row));
        cell.colSpan = 7;
        under.append(cell);
        line.after(under);
      });
    }
    sortable(table);
    return table;
  }

  function fillChains(details) {
    const place = details.querySelector(".candidates");
    if (!data || place.childElementCount) return;
    place.append(element("p", "small", "Choose a candidate to see what each stage decided on it. ★ is the fastest measurement. Draft and verifier: the latency they foresaw."));
    place.append(element("div", "scroll", candidateTable(data.candidates[Number(details.dataset.task)])));
  }

  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", () => {
    if (!one.open) return;
    if (one.matches(".chains")) fillChains(one);
    one.querySelectorAll(".plot").forEach((plot) => { if (!drawn.has(plot) || plot.clientWidth !== plot._fullLayout?.width) draw(plot); });
  }));

  async function start() {
    try {
      data = JSON.parse(await unpacked("packed-data"));
      const script = document.createElement("script");
      script.nonce = nonce;
      script.textContent = await unpacked("packed-plotly");
      document.head.append(script);
      document.querySelectorAll(".plot").forEach((plot) => watcher.observe(plot));
      document.querySelectorAll("details.chains[open]").forEach(fillChains);
      openLinked();
      if (matchMedia("print").matches) openAll();
      root.dataset.ready = "yes";
    } catch (error) {
      const told = document.getElementById("no-figures");
      told.hidden = false;
      told.textContent = `The figures cannot be drawn in this browser (${error}). Their tables are complete.`;
    }
  }
  start();
})();
