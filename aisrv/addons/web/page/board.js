// The board as a drawing: tiles, cores with their tasks, channels as lines, the parts around.
import { bytes, card, el, mark, say, svg } from "./dom.js";

const CORES = 8,
  ROW = 46,
  CORE = 38,
  HEAD = 52;
const WORKS = new Set(["invoke", "compute", "run", "load"]);

export function makeBoard(board) {
  const chip = el("div"),
    note = el("p", { class: "vh", id: "board-says" });
  const section = card("board", "Board", "", chip, note);
  let cores = {},
    lines = [],
    narrow = null,
    last = {};

  function draw() {
    const now = chip.clientWidth < 640;
    if (now === narrow) return;
    narrow = now;
    ({ cores, lines } = narrow ? stacked(board, chip) : beside(board, chip));
    for (const [place, core] of Object.entries(last)) showCore(cores[place], core);
  }
  new ResizeObserver(draw).observe(chip);

  return {
    section,
    show(state, rates) {
      if (narrow === null) draw();
      last = state.cores;
      for (const [place, core] of Object.entries(state.cores)) showCore(cores[place], core);
      for (const line of lines) showRate(line, line.rate(rates));
      const halted = Object.entries(state.cores).filter(([, core]) => core.s === "halted");
      say(
        note,
        halted.length
          ? `${halted.length} core${halted.length > 1 ? "s" : ""} halted: ${halted.map(([place, core]) => `${place} ${core.trap}`).join("; ")}`
          : "",
      );
    },
  };
}

function showCore(core, { s, v, on, trap }) {
  if (!core) return;
  const works = s === "waiting" && WORKS.has(v);
  for (const [name, is] of [
    ["running", s === "running"],
    ["halted", s === "halted"],
    ["aside", s === "set aside"],
    ["works", works],
  ])
    mark(core.box, name, is);
  const what = s === "halted" ? `halted: ${trap}` : s !== "waiting" ? s : on ? `${v} · ${on}` : v;
  say(core.wait, what.length > core.room ? what.slice(0, core.room - 1) + "…" : what);
  say(core.title, `${core.name}: ${s === "waiting" ? `${v}${on ? " on " + on : ""}` : what}`);
}

function showRate(line, rate) {
  const strength = rate > 0 ? Math.min(1, 0.25 + Math.log10(1 + rate) / 8) : 0;
  const wide = (1.6 + 5 * strength).toFixed(1),
    seen = strength.toFixed(2);
  if (line.seen !== seen) {
    line.glow.style.opacity = line.seen = seen;
    line.glow.style.strokeWidth = wide;
  }
  mark(line.label, "on", rate > 0);
  if (rate > 0 || line.quiet) say(line.text, rate > 0 ? `${bytes(rate)}/s` : line.quiet);
}

function coreBox(name, number, x, y, width) {
  const wait = svg("text", { class: "wait", x: x + 30, y: y + 29 }),
    title = svg("title");
  const box = svg(
    "g",
    { class: name ? "core" : "core free" },
    title,
    svg("rect", { x, y, width, height: CORE, rx: 8 }),
    svg("circle", { class: "dot", cx: x + 16, cy: y + CORE / 2, r: 5 }),
    svg("text", { class: "name", x: x + 30, y: y + 15 }, name ?? ""),
    svg("text", { class: "sub", x: x + width - 10, y: y + 15, "text-anchor": "end" }, String(number)),
    wait,
  );
  if (!name) say(title, `core ${number}: free`);
  return {
    box,
    wait,
    title,
    name,
    room: Math.floor((width - 40) / 6.1),
    x,
    y,
    right: x + width,
    middle: y + CORE / 2,
  };
}

function drawTiles(board, root, place) {
  const cores = {},
    byTask = {};
  for (const [number, tile] of Object.entries(board.tiles)) {
    const at = place(+number);
    root.append(
      svg("rect", { class: "tile", x: at.x, y: at.y, width: at.width, height: at.height, rx: 14 }),
      svg("text", { class: "head", x: at.coreX, y: at.y + 24 }, `Tile ${number}`),
      svg(
        "text",
        { class: "sub", x: at.coreX, y: at.y + 40 },
        `${tile.kib} KiB · ${board.mhz} MHz · ${tile.tasks.length}/${CORES} cores · ${tile.ends}/32 ends`,
      ),
    );
    for (let n = 0; n < CORES; n++) {
      const core = coreBox(tile.tasks[n], n, at.coreX, at.y + HEAD + n * ROW, at.coreWidth);
      root.append(core.box);
      cores[`${number}.${n}`] = core;
      if (tile.tasks[n]) byTask[`${number} ${tile.tasks[n]}`] = core;
    }
  }
  return { cores, byTask };
}

function drawLine(layers, path, at, title, rate) {
  const glow = svg("path", { class: "glow", d: path }),
    text = svg("text", { x: at.x, y: at.y + 4 });
  const label = svg(
    "g",
    { class: "rate" },
    svg("rect", { x: at.x - 36, y: at.y - 10, width: 72, height: 20, rx: 10 }),
    text,
  );
  layers.links.append(svg("g", {}, svg("title", {}, title), svg("path", { class: "link", d: path }), glow));
  layers.labels.append(label);
  return { glow, label, text, rate, at };
}

// Labels of one column get out of each other's way.
function spread(lines) {
  for (const column of Map.groupBy(lines, (line) => Math.round(line.at.x / 80)).values()) {
    let free = -Infinity;
    for (const line of column.sort((a, b) => a.at.y - b.at.y)) {
      const y = Math.max(line.at.y, free);
      line.label.setAttribute("transform", `translate(0 ${y - line.at.y})`);
      free = y + 23;
    }
  }
}

// The channels between tasks that are drawn: their cores, in the order of the tiles, and what they carry.
const channels = (board, byTask) =>
  Object.entries(board.links)
    .map(([id, { a, b, carries }]) => ({
      ends: [a, b].sort((one, other) => one[0] - other[0]).map((end) => byTask[end.join(" ")]),
      tile: a[0] === b[0] ? a[0] : null,
      title: `${a[1]} to ${b[1]}: ${carries.join(", ")}`,
      rate: (rates) => rates.links[id] ?? 0,
    }))
    .filter(({ ends }) => ends.every(Boolean));
const curve = (x1, y1, x2, y2, bend1, bend2) => `M${x1} ${y1}C${x1 + bend1} ${y1} ${x2 + bend2} ${y2} ${x2} ${y2}`;

function canvas(chip, width, height) {
  const layers = { links: svg("g"), tiles: svg("g"), labels: svg("g") };
  const root = svg(
    "svg",
    {
      class: "chip",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Tiles, cores and channels",
      "aria-describedby": "board-says",
    },
    layers.tiles,
    layers.links,
    layers.labels,
  );
  chip.replaceChildren(root);
  return layers;
}

// Two tiles side by side, parts at the outer sides, arcs within a tile towards them.
function beside(board, chip) {
  const tiles = Object.keys(board.tiles).length,
    width = 1060,
    tileWidth = 330,
    height = HEAD + CORES * ROW + 12;
  const left = tiles === 1 ? 365 : 120;
  const place = (n) => {
    const x = n ? width - left - tileWidth : left;
    return { x, y: 0, width: tileWidth, height, coreX: x + (n ? 12 : 74), coreWidth: 244 };
  };
  const layers = canvas(chip, width, height + 2);
  const { cores, byTask } = drawTiles(board, layers.tiles, place);
  const lines = channels(board, byTask).map(({ ends: [a, b], tile, title, rate }) => {
    if (tile === null) {
      const bend = (b.x - a.right) * 0.5,
        middle = { x: (a.right + b.x) / 2, y: (a.middle + b.middle) / 2 };
      return drawLine(layers, curve(a.right, a.middle, b.x, b.middle, bend, -bend), middle, title, rate);
    }
    const outward = tile ? 1 : -1,
      x = tile ? a.right : a.x,
      out = outward * (14 + (8 * Math.abs(a.y - b.y)) / ROW),
      [y1, y2] = [a.middle + (b.y > a.y ? 7 : -7), b.middle + (b.y > a.y ? -7 : 7)],
      at = { x: x + outward * Math.min(52, Math.abs(out) + 10), y: (y1 + y2) / 2 };
    return drawLine(layers, curve(x, y1, x, y2, out * 1.3, out * 1.3), at, title, rate);
  });
  spread(lines);
  parts(board, byTask).forEach(({ core, name, sub, rate, tile }) => {
    const x = tile ? width - 108 : 0,
      y = core.y,
      text = svg("text", { class: "sub", x: x + 12, y: y + 30 }, sub),
      [from, to] = tile ? [core.right, x] : [core.x, x + 108];
    layers.tiles.append(
      svg(
        "g",
        { class: "part" },
        svg("rect", { x: x + 1, y, width: 106, height: CORE, rx: 8 }),
        svg("text", { x: x + 12, y: y + 16 }, name),
        text,
      ),
    );
    const line = drawLine(layers, `M${from} ${core.middle}H${to}`, { x, y }, name, rate);
    line.label.remove();
    lines.push({ ...line, label: text, text, quiet: sub });
  });
  return { cores, lines };
}

// The tiles one below the other, all channels as arcs at the right.
function stacked(board, chip) {
  const width = 344,
    tileHeight = HEAD + CORES * ROW + 10,
    tiles = Object.keys(board.tiles).length;
  const place = (n) => {
    const y = n * (tileHeight + 12);
    return { x: 0, y, width, height: tileHeight, coreX: 10, coreWidth: 246 };
  };
  const layers = canvas(chip, width, tiles * (tileHeight + 12));
  const { cores, byTask } = drawTiles(board, layers.tiles, place);
  const lines = channels(board, byTask).map(({ ends: [{ right, middle: y1 }, { middle: y2 }], title, rate }) => {
    const out = 1.25 * Math.min(66, 14 + Math.abs(y1 - y2) / 9);
    return drawLine(layers, curve(right, y1, right, y2, out, out), { x: width - 38, y: (y1 + y2) / 2 }, title, rate);
  });
  spread(lines);
  return { cores, lines };
}

function parts(board, byTask) {
  const found = [],
    port = (name) => (rates) => rates.tasks[name] ?? 0;
  const add = (tile, task, name, sub, rate) => {
    const core = byTask[`${tile} ${task}`];
    if (core) found.push({ core, name, sub, rate, tile });
  };
  add(board.usb, "usb_data", "USB host", "bulk", ({ ports }) => ports.usb[0] + ports.usb[1]);
  if (board.spi >= 0) add(board.spi, "spi_slave", "SPI master", "mode 0", ({ ports }) => ports.spi);
  if (board.sensor.w)
    add(board.sensor.tile, "sensor", "Sensor", `${board.sensor.w}×${board.sensor.h}`, port("sensor"));
  for (const [n, flash] of Object.entries(board.flash))
    add(flash.tile, `flash_server ${n}`, "Flash", flash.part, port(`flash_server ${n}`));
  for (const [n, engine] of Object.entries(board.engines))
    add(
      engine.tile,
      `aiengine ${n}`,
      "LEDs",
      engine.leds.filter((name) => !name.startsWith("output ")).length ? "4, named" : "4 outputs",
      () => 0,
    );
  return found;
}
