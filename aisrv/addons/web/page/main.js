// The connection, the state, and what is shown of it.
import { el, mark, say } from "./dom.js";
import { makeBoard } from "./board.js";
import { makeBus } from "./bus.js";
import { merge } from "./merge_patch.js";
import { makeEngine, makeLog, makeMany, makeMemory, makeTimings, makeTraffic } from "./panels.js";

const $ = (id) => document.getElementById(id),
  WAITS = [0.25, 0.5, 1, 2, 5],
  REST = 500, // milliseconds
  MINUTE = 61; // seconds of rest after which the chart of the traffic is empty
const hash = new URLSearchParams(location.hash.slice(1)),
  given = location.hash.slice(1).split("&")[0];
if (given && !given.includes("=")) sessionStorage.setItem("token", given);
let see = hash.get("see"),
  token = sessionStorage.getItem("token") ?? "",
  socket = null,
  tries = 0,
  state = {},
  heard = 0,
  past = [],
  links = {},
  panels = null,
  drawn = false;
history.replaceState(null, "", see ? `#see=${see}` : location.pathname);

// Has the server do something; `take` gets its answer. Returns what went wrong, or "".
async function act(name, values, body, take) {
  const query = new URLSearchParams({ device: see, ...values });
  try {
    const answer = await fetch(`do/${name}?${query}`, {
      method: "POST",
      body,
      headers: { "X-Aisrv-Token": token },
    });
    if (!answer.ok) return (await answer.text()).trim();
    await take?.(answer);
    return "";
  } catch {
    return "the server is not there";
  }
}

function connect() {
  socket = new WebSocket(`ws://${location.host}/socket`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(JSON.stringify({ token, see: document.hidden ? null : (see ?? "") }));
  socket.onmessage = ({ data }) => (typeof data === "string" ? take(JSON.parse(data)) : picture(data));
  socket.onclose = ({ code }) => {
    if (code === 4401) {
      token = "";
      link("needs its token", "lost");
      $("ask").open || $("ask").showModal();
      return;
    }
    link("not connected", "lost");
    setTimeout(connect, 1000 * WAITS[Math.min(tries++, WAITS.length - 1)]);
  };
}

function link(text, name) {
  say($("link"), text);
  $("link").className = `state ${name}`;
}

function take(message) {
  if (message.board || message.grid) {
    tries = 0;
    link("live", "live");
    state = {};
    past = [];
    build(message);
  }
  if (message.patch) {
    merge(state, message.patch);
    heard = performance.now();
    if (!drawn) {
      drawn = true;
      requestAnimationFrame(show);
    }
  }
  if (message.log) panels?.log?.add(message.log, message.missed);
}

function build({ board, devices, grid }) {
  $("pick").hidden = devices.length < 2;
  $("devices").replaceChildren(
    ...["grid", ...devices].map((name) =>
      el("option", { value: name }, name === "grid" ? `all ${devices.length}` : name),
    ),
  );
  $("devices").value = grid ? "grid" : board.name;
  see = grid ? "grid" : board.name;
  say($("title"), grid ? `aisrv: ${devices.length} devices` : `aisrv ${board.name}`);
  document.title = $("title").textContent;
  say($("about"), grid ? "" : board.description);
  links = board?.links ?? {};
  if (grid) {
    panels = { many: makeMany(look) };
    $("main").replaceChildren(panels.many.section);
    return;
  }
  const engines = Object.fromEntries(
    Object.entries(board.engines).map(([n, engine]) => [n, makeEngine(n, engine, act)]),
  );
  // What a host reaches has no tiles to look into.
  const inside = Object.keys(board.tiles).length > 0,
    arenas = Object.values(board.engines).some((engine) => engine.arena);
  panels = {
    board: inside ? makeBoard(board) : null,
    engines,
    timings: makeTimings(board),
    memory: inside || arenas ? makeMemory(board) : null,
    traffic: inside ? makeTraffic(board) : null,
    log: makeLog(),
    bus: makeBus(board, act),
  };
  const { board: drawing, timings, memory, traffic, log } = panels;
  $("main").replaceChildren(
    el(
      "div",
      { class: "col" },
      ...[drawing, timings, memory, traffic, log].filter(Boolean).map((each) => each.section),
    ),
    el(
      "div",
      { class: "col side" },
      ...Object.values(engines).map((each) => each.section),
      panels.bus.section,
    ),
  );
}

function perSecond(read) {
  const first = past[0],
    last = past.at(-1),
    seconds = last.t - first.t;
  const rate = (a, b) =>
    Array.isArray(b)
      ? b.map((value, n) => rate(a?.[n] ?? value, value))
      : seconds > 0
        ? Math.max(0, (b - (a ?? b)) / Math.max(1, seconds))
        : 0;
  return Object.fromEntries(
    Object.entries(read(last)).map(([key, value]) => [key, rate(read(first)[key], value)]),
  );
}

// A device that rests sends nothing. Its clock goes on here, so that rates fall to nothing and the traffic moves on.
const clock = () => state.t + (performance.now() - heard) / 1000;
setInterval(() => {
  if (socket?.readyState === 1 && !document.hidden && clock() - state.t < MINUTE) show();
}, REST);

function show() {
  drawn = false;
  if (!panels || state.t === undefined) return;
  const t = clock();
  if (panels.many) {
    panels.many.show({ ...state, t });
    return;
  }
  past.push({
    t,
    links: { ...state.links },
    ports: { usb: state.usb ?? 0, spi: state.spi ?? 0 },
    n: Object.fromEntries(Object.entries(state.engines).map(([n, engine]) => [n, engine.n])),
  });
  while (past.length > 2 && past[1].t < t - 1) past.shift();
  const rates = { links: perSecond((each) => each.links), ports: perSecond((each) => each.ports), tasks: {} },
    speed = perSecond((each) => each.n);
  for (const [id, rate] of Object.entries(rates.links))
    for (const [, task] of [links[id].a, links[id].b]) rates.tasks[task] = (rates.tasks[task] ?? 0) + rate;
  panels.board?.show(state, rates);
  for (const [n, engine] of Object.entries(state.engines)) panels.engines[n].show(engine, speed[n]);
  panels.timings.show(state.engines);
  panels.memory?.show(state.engines, state.flash);
  panels.traffic?.show(t, rates);
  panels.bus.show(state, rates);
  const halted = Object.entries(state.cores)
    .filter(([, core]) => core.s === "halted")
    .map(([place, core]) => `core ${place} halted in ${core.trap}`);
  const trouble = [state.deadlock && `deadlock: ${state.deadlock}`, ...halted].filter(Boolean);
  $("alarm").hidden = !trouble.length;
  if ($("alarm").textContent !== trouble.join("; "))
    // Each for itself: one may turn the text around that comes behind it.
    $("alarm").replaceChildren(...trouble.flatMap((each, n) => [n ? "; " : "", el("span", { dir: "auto" }, each)]));
}

function picture(data) {
  const head = new DataView(data),
    engine = panels?.engines?.[head.getUint8(1)];
  engine?.picture(
    head.getUint8(0),
    head.getUint16(2, true),
    head.getUint16(4, true),
    new Uint8Array(data, 8),
  );
}

function look(name) {
  see = name;
  socket?.readyState === 1 && socket.send(JSON.stringify({ see: document.hidden ? null : name }));
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  panels?.traffic?.restyle();
}
const dark = matchMedia("(prefers-color-scheme: dark)"),
  chosen = localStorage.getItem("dark");
theme(chosen ? chosen === "1" : dark.matches);
dark.addEventListener("change", () => localStorage.getItem("dark") ?? theme(dark.matches));
$("theme").addEventListener("click", () => {
  const is = document.documentElement.dataset.theme !== "dark";
  localStorage.setItem("dark", +is);
  theme(is);
});
$("devices").addEventListener("change", () => look($("devices").value));
$("ask").addEventListener("close", () => {
  token = $("token").value.split("#").at(-1).trim();
  sessionStorage.setItem("token", token);
  connect();
});
document.addEventListener("visibilitychange", () => look(see));
connect();
