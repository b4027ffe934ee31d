// Elements, text and numbers. Text goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

export function el(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:");
  const node = svg ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}
export const svg = (name, attributes, ...children) => el("svg:" + name, attributes, ...children);
// Changes the page only where the text is another one.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
export function mark(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}
// What takes the focus and does something.
export const button = (text, onclick) => el("button", { type: "button", onclick }, text);
// A line that says how something that was done ended; `tell` returns whether it was done.
export function outcome() {
  const line = el("p", { class: "said", role: "status" });
  function tell(text, wrong) {
    say(line, wrong || `${text}: done`);
    mark(line, "bad", !!wrong);
    return !wrong;
  }
  return { line, tell };
}
// A name that somebody chose: on one line, whole in its tip, and without a say in what is written beside it.
export const called = (name) => el("bdi", { title: name }, name);
// Figures with their names: a list, and the elements of the figures by key.
export function facts(names) {
  const figures = Object.fromEntries(Object.keys(names).map((key) => [key, el("dd", {}, "–")])),
    rows = Object.entries(names).map(([key, name]) => el("div", {}, el("dt", {}, name), figures[key]));
  return { ...figures, list: el("dl", { class: "facts" }, ...rows) };
}

export function bytes(n) {
  if (n < 999.5) return `${Math.round(n)} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    n /= 1000;
    if (n < 999.5) return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${unit}`;
  }
  return `${Math.round(n)} GB`;
}
export const count = (n) => Math.round(n).toLocaleString("en-US");
const digits = (ms) => (ms < 1 ? 3 : ms < 100 ? 1 : 0);
export const ms = (time) => `${time.toFixed(digits(time))} ms`;
export const band = ([time, low, high]) => `${low.toFixed(digits(time))} to ${high.toFixed(digits(time))}`;
export const kib = (n) =>
  n >= 1048576 ? `${+(n / 1048576).toFixed(2)} MiB` : n >= 1024 ? `${+(n / 1024).toFixed(1)} KiB` : `${n} B`;
export function card(classes, title, note, ...children) {
  const id = "h-" + title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return el(
    "section",
    { class: `card ${classes}`, "aria-labelledby": id },
    el("h2", { id }, title, note ? el("small", {}, note) : ""),
    ...children,
  );
}
