"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const { lane: LANE, start: START, taken: TAKEN, name: NAME, site: SITE, critical: CRITICAL } = data.boxes;
const COUNT = LANE.length, ROW = 34, BOX = 20, AXIS = 46, MOST_ARROWS = 1000, MOST_MARKED = 1000;
const byId = id => document.getElementById(id);
const host = byId("plot"), tip = byId("tip"), details = byId("details"), search = byId("search");
const end = i => START[i] + TAKEN[i];

// -- what is where: the boxes of each lane in the order of time, and the edges of each box

const lanes = data.lanes.map(() => []);
let last = 0;
for (let i = 0; i < COUNT; i++) { lanes[LANE[i]].push(i); if (end(i) > last) last = end(i); }
for (const boxes of lanes) boxes.sort((a, b) => START[a] - START[b]);
const edgesOf = new Map();
data.arrows.forEach((arrow, number) => {
  for (const box of [arrow[0], arrow[1]]) edgesOf.has(box) ? edgesOf.get(box).push(number) : edgesOf.set(box, [number]);
});
const findingsOf = new Map();
data.findings.forEach((finding, number) => { if (finding.box >= 0) findingsOf.set(finding.box, [...(findingsOf.get(finding.box) || []), number]); });
const span = Math.max(last, 1e-3);

function firstIn(boxes, time) { // the first box of a lane that ends after a time
  let low = 0, high = boxes.length;
  while (low < high) { const middle = (low + high) >> 1; end(boxes[middle]) <= time ? low = middle + 1 : high = middle; }
  return low;
}

function shown(microseconds) {
  const value = Math.abs(microseconds);
  const digits = number => Number(number.toPrecision(4)).toString();
  return value < 1000 ? digits(microseconds) + " us" : value < 1e6 ? digits(microseconds / 1e3) + " ms" : digits(microseconds / 1e6) + " s";
}

function ticksShown(u, ticks, axis, space, step) { // as many digits as tell two ticks from each other
  const most = Math.max(...ticks.map(Math.abs), 0), [unit, name] = most < 1000 ? [1, "us"] : most < 1e6 ? [1e3, "ms"] : [1e6, "s"];
  const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)));
  return ticks.map(tick => `${(tick / unit).toFixed(digits)} ${name}`);
}

// -- colours, which follow the theme

let colours = {}, fills = [];
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "panel", "text", "faint", "line", "critical", "edge", "missing", "found", "light"]) colours[name] = style.getPropertyValue("--" + name).trim();
  fills = data.names.map(name => {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    return `hsl(${hash % 360} 45% ${colours.light})`;
  });
}

// -- state

let selected = -1, hovered = -1, matches = null, order = [], at = -1, finding = -1;
const isOnlyCritical = () => byId("critical").checked, showsEdges = () => byId("edges").checked;

// -- drawing, on the canvas of uPlot

const y = (u, lane) => u.bbox.top + (lane * ROW + ROW / 2) * devicePixelRatio;
const x = (u, time) => u.valToPos(time, "x", true);

function drawBoxes(u, context) {
  const { min, max } = u.scales.x, half = BOX / 2 * devicePixelRatio, ratio = ratioOf(u);
  context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  lanes.forEach((boxes, lane) => {
    const middle = y(u, lane);
    context.strokeStyle = colours.line;
    context.beginPath(); context.moveTo(u.bbox.left, middle + ROW / 2 * devicePixelRatio); context.lineTo(u.bbox.left + u.bbox.width, middle + ROW / 2 * devicePixelRatio); context.stroke();
    const pixel = devicePixelRatio / ratio; // in time
    for (let n = firstIn(boxes, min); n < boxes.length && START[boxes[n]] < max;) {
      drawBox(u, context, boxes[n], u.bbox.left + (START[boxes[n]] - min) * ratio, middle, half, ratio);
      const next = boxes[n + 1]; // what lies on the same pixel is not drawn
      n = next !== undefined && end(next) < end(boxes[n]) + pixel ? Math.max(n + 1, firstIn(boxes, Math.max(end(boxes[n]), START[boxes[n]] + pixel) + pixel / 2)) : n + 1;
    }
    context.globalAlpha = 1;
  });
  for (const i of marked()) {
    if (START[i] >= max || end(i) <= min) continue;
    const left = u.bbox.left + (START[i] - min) * ratioOf(u), middle = y(u, LANE[i]), width = drawBox(u, context, i, left, middle, half, ratioOf(u));
    outline(context, i, left, middle - half, width, 2 * half);
  }
}

const ratioOf = u => u.bbox.width / (u.scales.x.max - u.scales.x.min);
const marked = () => new Set([...order.slice(0, MOST_MARKED), ...findingsOf.keys(), ...(selected >= 0 ? [selected] : [])]);

function drawBox(u, context, i, left, middle, half, ratio) {
  const width = Math.max(TAKEN[i] * ratio, devicePixelRatio);
  const isFaint = (matches && !matches.has(i)) || (isOnlyCritical() && !CRITICAL[i]);
  context.globalAlpha = isFaint ? .2 : 1;
  context.fillStyle = fills[NAME[i]];
  context.fillRect(left, middle - half, width, 2 * half);
  if (CRITICAL[i]) { context.fillStyle = colours.critical; context.fillRect(left, middle + half, width, 3 * devicePixelRatio); }
  if (width > 40 * devicePixelRatio) drawText(context, data.names[NAME[i]], left, middle, width, u);
  return width;
}

function drawText(context, text, left, middle, width, u) {
  const from = Math.max(left, u.bbox.left), room = Math.min(left + width, u.bbox.left + u.bbox.width) - from;
  if (room < 30 * devicePixelRatio) return;
  context.save();
  context.beginPath(); context.rect(from, middle - ROW, room - 2, 2 * ROW); context.clip();
  context.fillStyle = "#fff";
  context.fillText(text.replace(/^aten::/, ""), from + 4 * devicePixelRatio, middle);
  context.restore();
}

function outline(context, i, left, top, width, height) {
  context.globalAlpha = 1;
  context.lineWidth = (i === selected ? 3 : 2) * devicePixelRatio;
  context.strokeStyle = i === selected ? colours.text : findingsOf.has(i) ? colours.missing : colours.found;
  context.strokeRect(left, top, width, height);
  if (findingsOf.has(i)) {
    context.fillStyle = colours.missing;
    const x0 = left + Math.min(width / 2, 8 * devicePixelRatio), size = 5 * devicePixelRatio;
    context.beginPath(); context.moveTo(x0 - size, top - 7 * devicePixelRatio); context.lineTo(x0 + size, top - 7 * devicePixelRatio); context.lineTo(x0, top); context.fill();
  }
  context.lineWidth = devicePixelRatio;
}

function drawArrows(u, context) {
  const { min, max } = u.scales.x;
  let left = MOST_ARROWS;
  const chosen = new Set(edgesOf.get(selected) || []);
  const draw = number => {
    const [source, target, , , isCritical, isMissing] = data.arrows[number], isChosen = chosen.has(number);
    if (end(source) > max && START[target] > max || end(source) < min && START[target] < min) return;
    if (!isChosen && !isMissing && ((isOnlyCritical() && !isCritical) || !showsEdges() || left-- <= 0)) return;
    const colour = isMissing ? colours.missing : isCritical ? colours.critical : colours.edge;
    arrow(context, [x(u, end(source)), y(u, LANE[source])], [x(u, START[target]), y(u, LANE[target])], colour, isMissing, isChosen || isCritical || isMissing);
  };
  for (let number = 0; number < data.arrows.length; number++) draw(number);
}

function arrow(context, [x0, y0], [x1, y1], colour, isDashed, isStrong) {
  const bend = Math.max(12 * devicePixelRatio, Math.min(60 * devicePixelRatio, Math.abs(x1 - x0) / 2)), head = 5 * devicePixelRatio;
  context.strokeStyle = context.fillStyle = colour;
  context.globalAlpha = isStrong ? 1 : .45;
  context.lineWidth = (isStrong ? 2 : 1) * devicePixelRatio;
  context.setLineDash(isDashed ? [6 * devicePixelRatio, 4 * devicePixelRatio] : []);
  context.beginPath(); context.moveTo(x0, y0); context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1); context.stroke();
  context.setLineDash([]);
  context.beginPath(); context.moveTo(x1, y1); context.lineTo(x1 - head * 1.6, y1 - head); context.lineTo(x1 - head * 1.6, y1 + head); context.fill();
  context.globalAlpha = 1; context.lineWidth = devicePixelRatio;
}

function draw(u) {
  const began = performance.now(), context = u.ctx;
  context.save();
  context.beginPath(); context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); context.clip();
  drawBoxes(u, context);
  drawArrows(u, context);
  context.restore();
  window.syncheck.drawn = performance.now() - began;
}

const colour = name => () => colours[name];
const height = () => lanes.length * ROW + AXIS;
function make() {
  return new uPlot({
    width: Math.max(host.clientWidth, 200), height: height(), padding: [0, 12, 0, 12],
    scales: { x: { time: false }, y: { range: [0, 1] } },
    series: [{}, { paths: () => null, points: { show: false } }],
    axes: [{ stroke: colour("text"), grid: { stroke: colour("line") }, ticks: { stroke: colour("line") }, size: AXIS, space: 95, values: ticksShown }, { show: false }],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, uni: 5 } },
    legend: { show: false },
    hooks: { draw: [draw] },
  }, [[0, span], [0, 0]], host);
}

// -- moving

function zoom(min, max) {
  const width = Math.min(Math.max(max - min, span / 1e7), span);
  const from = Math.min(Math.max(min, 0), span - width);
  plot.setScale("x", { min: from, max: from + width });
}
function scale(factor, around) {
  const { min, max } = plot.scales.x, centre = around ?? (min + max) / 2;
  zoom(centre - (centre - min) * factor, centre + (max - centre) * factor);
}
function move(part) { const { min, max } = plot.scales.x; zoom(min + (max - min) * part, max + (max - min) * part); }
function show(i) { // bring a box into view, and wide enough to be seen
  const { min, max } = plot.scales.x, width = Math.min(max - min, Math.max(TAKEN[i] * 12, span / 1e6));
  if (START[i] < min || end(i) > max || TAKEN[i] < (max - min) / 400) zoom(START[i] + TAKEN[i] / 2 - width / 2, START[i] + TAKEN[i] / 2 + width / 2);
}

// -- one operator

function select(i, isShown = true) {
  selected = i;
  document.querySelectorAll("#lanes li").forEach((item, lane) => item.setAttribute("aria-current", i >= 0 && LANE[i] === lane));
  if (i >= 0 && isShown) show(i);
  describe(i);
  plot.redraw(false);
}

function element(kind, text, parent, className) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

function describe(i) {
  details.replaceChildren();
  details.hidden = i < 0;
  if (i < 0) return;
  const site = data.sites[SITE[i]], facts = [data.lanes[LANE[i]].name, `from ${shown(START[i])}, takes ${shown(TAKEN[i])}`];
  element("h3", data.names[NAME[i]], details);
  if (data.boxes.bytes[i]) facts.push(`${data.boxes.bytes[i].toLocaleString("en")} bytes`);
  if (data.boxes.flops[i]) facts.push(`${data.boxes.flops[i].toLocaleString("en")} flops`);
  if (CRITICAL[i]) facts.push("on the critical path");
  element("p", facts.join(" · "), details);
  for (const number of findingsOf.get(i) || []) describeFinding(data.findings[number]);
  if (site.at) describeSource(site);
  describeEdges(i);
}

function describeFinding(found) {
  const text = element("p", `${found.rule} ${found.message}`, details, "missing");
  for (const more of [found.help, found.proof]) { if (more) { element("br", undefined, text); text.append(more); } }
}

function describeSource(site) {
  element("code", site.at, details);
  const source = element("pre", undefined, details);
  for (const [number, text] of site.excerpt) element(number === site.line ? "b" : "span", `${String(number).padStart(5)}  ${text}\n`, source);
  if (site.stack.length > 1) {
    const stack = element("details", undefined, details);
    element("summary", "stack", stack);
    element("pre", site.stack.join("\n"), stack);
  }
}

function describeEdges(i) {
  const edges = edgesOf.get(i);
  if (!edges) return;
  const list = element("ul", undefined, details);
  for (const number of edges.slice(0, 40)) {
    const [source, target, text, waits, , isMissing] = data.arrows[number], other = source === i ? target : source;
    const item = element("li", `${data.names[text]}${waits ? `, waits ${shown(waits)}` : ""}: ${source === i ? "to" : "from"} `, list, isMissing ? "missing" : "");
    const button = element("button", data.names[NAME[other]], item);
    button.type = "button";
    button.addEventListener("click", () => select(other));
  }
}

// -- pointing

function under(event) {
  const area = plot.over.getBoundingClientRect(), lane = Math.floor((event.clientY - area.top) / ROW);
  const boxes = lanes[lane];
  if (!boxes) return -1;
  const slack = (plot.scales.x.max - plot.scales.x.min) / area.width * 2, time = plot.posToVal(event.clientX - area.left, "x");
  const n = firstIn(boxes, time - slack);
  return n < boxes.length && START[boxes[n]] <= time + slack ? boxes[n] : -1;
}

function point(event) {
  const i = under(event);
  if (i !== hovered) {
    hovered = i;
    tip.hidden = i < 0;
    if (i >= 0) tip.textContent = `${data.names[NAME[i]]} · ${shown(TAKEN[i])} · ${data.sites[SITE[i]].at}`;
  }
  const area = host.parentElement.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX - area.left + 14, area.width - 200) + "px";
  tip.style.top = event.clientY - area.top + 18 + "px";
}

let pressed = 0;
function listen(over) {
  over.addEventListener("mousemove", point);
  over.addEventListener("mouseleave", () => { tip.hidden = true; hovered = -1; });
  over.addEventListener("mousedown", event => { pressed = event.clientX; });
  over.addEventListener("click", event => { if (Math.abs(event.clientX - pressed) < 4) select(under(event), false); });
  over.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey) scale(event.deltaY > 0 ? 1.25 : .8, plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x"));
    else move((event.deltaX || event.deltaY) / 1000);
  }, { passive: false });
}

// -- keys

function alongLane(step) {
  if (selected < 0) return select(lanes.find(boxes => boxes.length)?.[0] ?? -1);
  const boxes = lanes[LANE[selected]], next = boxes[boxes.indexOf(selected) + step];
  if (next !== undefined) select(next);
}
function acrossLanes(step) {
  if (selected < 0) return alongLane(0);
  for (let lane = LANE[selected] + step; lanes[lane]; lane += step) {
    const boxes = lanes[lane];
    if (boxes.length) return select(boxes[Math.min(firstIn(boxes, START[selected]), boxes.length - 1)]);
  }
}
function toFinding(step) {
  const placed = data.findings.map((found, number) => found.box >= 0 ? number : -1).filter(number => number >= 0);
  if (!placed.length) return;
  finding = placed[(placed.indexOf(finding) + step + placed.length) % placed.length] ?? placed[0];
  select(data.findings[finding].box);
}
const KEYS = {
  ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), ArrowUp: () => acrossLanes(-1), ArrowDown: () => acrossLanes(1),
  "+": () => scale(.5), "=": () => scale(.5), "-": () => scale(2), "0": () => zoom(0, span),
  "[": () => alongLane(-1), "]": () => alongLane(1), n: () => toFinding(1), p: () => toFinding(-1), Escape: () => select(-1),
};
host.addEventListener("keydown", event => {
  const act = KEYS[event.key];
  if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); }
});

// -- search

function find() {
  const wanted = search.value.trim().toLowerCase();
  if (!wanted) { matches = null; order = []; byId("found").textContent = ""; plot.redraw(false); return; }
  const names = new Set(data.names.flatMap((name, n) => name.toLowerCase().includes(wanted) ? [n] : []));
  const sites = new Set(data.sites.flatMap((site, n) => site.at.toLowerCase().includes(wanted) ? [n] : []));
  order = [];
  for (let i = 0; i < COUNT; i++) if (names.has(NAME[i]) || sites.has(SITE[i])) order.push(i);
  order.sort((a, b) => START[a] - START[b]);
  matches = new Set(order);
  at = -1;
  byId("found").textContent = `${order.length.toLocaleString("en")} found`;
  plot.redraw(false);
}
function toMatch(step) { if (order.length) { at = (at + step + order.length) % order.length; select(order[at]); } }
search.addEventListener("input", find);
search.addEventListener("keydown", event => {
  if (event.key === "Enter") toMatch(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { search.value = ""; find(); host.focus(); }
});

// -- the tools

function changeTheme() {
  const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  recolour();
}
function recolour() { readColours(); plot.redraw(); }
const TOOLS = { in: () => scale(.5), out: () => scale(2), all: () => zoom(0, span), previous: () => toMatch(-1), next: () => toMatch(1), theme: changeTheme };
for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => TOOLS[button.dataset.do]());
for (const button of document.querySelectorAll("[data-finding]")) button.addEventListener("click", () => {
  finding = Number(button.dataset.finding);
  select(data.findings[finding].box);
  byId("picture").scrollIntoView({ block: "nearest" });
});
for (const id of ["critical", "edges"]) byId(id).addEventListener("change", () => plot.redraw(false));
data.lanes.forEach((lane, number) => {
  const item = element("li", lane.name, byId("lanes"), number && data.lanes[number - 1].device !== lane.device ? "first" : "");
  item.title = lane.name;
});

window.syncheck = { drawn: 0, select, zoom, range: () => [plot.scales.x.min, plot.scales.x.max], selected: () => selected, ticks: () => plot.axes[0]._values, data };
readColours();
const plot = make();
listen(plot.over);
new ResizeObserver(() => { if (host.clientWidth > 0 && host.clientWidth !== plot.width) plot.setSize({ width: host.clientWidth, height: height() }); }).observe(host);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
addEventListener("beforeprint", recolour);
addEventListener("afterprint", recolour);
plot.setScale("x", { min: 0, max: span });
finding = data.findings.findIndex(found => found.box >= 0); // the first finding is what matters
if (finding >= 0) setTimeout(() => select(data.findings[finding].box, false));
})();
