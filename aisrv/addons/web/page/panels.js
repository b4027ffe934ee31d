// Engines, memory, timings, traffic, log, and the grid of many devices.
import uPlot from "./uPlot.esm.js";
import { band, button, bytes, called, card, count, el, facts, kib, mark, ms, outcome, say, svg } from "./dom.js";

const COLORS = ["--a", "--b", "--c", "--d", "--e"],
  SECONDS = 60;
const color = (n) => `var(${COLORS[n % COLORS.length]})`;

export function makeEngine(number, engine, act) {
  const figures = facts({ n: "inferences", rate: "a second", ms: "on the chip", model: "model" }),
    { line, tell } = outcome();
  const frame = el("canvas", {
      width: 160,
      height: 120,
      role: "img",
      "aria-label": "The sensor's latest frame",
    }),
    tensor = el("canvas", {
      width: 120,
      height: 120,
      role: "img",
      "aria-label": "Input tensor 0 as a picture",
    });
  const frameBox = el("figure", { hidden: !engine.sensor }, frame, el("figcaption", {}, "sensor")),
    tensorBox = el("figure", { hidden: true }, tensor, el("figcaption", {}, "input tensor"));
  const bars = el("div", { class: "bars" }),
    error = el("p", { class: "said bad", role: "alert" });
  const leds = engine.leds.map((name) => el("li", {}, el("i"), called(name), el("span", { class: "vh" }, " off")));
  const sliders = engine.leds.map((name, n) => slider(name, n));
  const on = check("drive the outputs", (is) => send("gpio", { on: +is })),
    most = check("the largest only", (is) => send("gpio-mode", { max: +is }));
  const send = async (name, values, body) => tell(name, await act(name, { engine: number, ...values }, body));
  function slider(name, n) {
    const value = el("span", { class: "num", "aria-hidden": "true" }),
      input = el("input", {
        type: "range",
        min: -128,
        max: 127,
        onchange: () => send("threshold", { output: n, value: input.value }),
        oninput: () => say(value, input.value),
      });
    return { input, value, box: el("label", {}, called(name), " above ", value, input) };
  }
  function check(text, done) {
    const input = el("input", { type: "checkbox", onchange: () => done(input.checked) });
    return { input, box: el("label", {}, input, " " + text) };
  }
  function file(text, accept, done) {
    const input = el("input", {
      type: "file",
      accept,
      onchange: () => {
        if (input.files[0]) done(input.files[0]);
        input.value = "";
      },
    });
    return el("label", { class: "file" }, text, input);
  }
  const between = el("p", { class: "legend" });
  const model = (data) => send("model", {}, data),
    stream = button("Start stream", () => send(stream.dataset.on ? "single" : "stream"));
  const pictures = file("Picture…", "image/*", feed);
  pictures.hidden = true;
  let shape = [],
    unsigned = false;
  // Scales a picture to the input tensor, sets it, and runs the model.
  async function feed(data) {
    const [, height, width, channels] = shape;
    const canvas = new OffscreenCanvas(width, height),
      context = canvas.getContext("2d");
    try {
      context.drawImage(await createImageBitmap(data), 0, 0, width, height);
    } catch {
      tell("", "the browser cannot read this picture");
      return;
    }
    const pixels = context.getImageData(0, 0, width, height).data,
      tensor = new Uint8Array(width * height * channels),
      zero = unsigned ? 0 : 128;
    for (let at = 0; at < width * height; at++) {
      const [red, green, blue] = pixels.subarray(4 * at, 4 * at + 3);
      const colors = channels === 1 ? [Math.round(0.299 * red + 0.587 * green + 0.114 * blue)] : [red, green, blue];
      colors.forEach((value, channel) => (tensor[channels * at + channel] = value ^ zero));
    }
    if (await send("input", {}, tensor)) await send("infer");
  }
  const drop = el(
    "div",
    { class: "row drop" },
    file("Model…", ".tflite", model),
    pictures,
    button("Infer", () => send("infer")),
    ...(engine.sensor ? [stream] : []),
    el("span", { class: "legend" }, "or drop a model or a picture here"),
  );
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [dropped] = event.dataTransfer.files;
    if (dropped) (dropped.type.startsWith("image/") && shape.length ? feed : model)(dropped);
  });
  const section = card(
    "engine",
    `Engine ${number}`,
    engine.tile < 0 ? engine.kind : `tile ${engine.tile} · ${engine.kind}`,
    el("div", { class: "look" }, el("div", { class: "seen" }, frameBox, tensorBox), bars),
    el("ul", { class: "leds", "aria-label": "Outputs" }, ...leds),
    figures.list,
    between,
    error,
    drop,
    el(
      "details",
      {},
      el("summary", {}, "Outputs and thresholds"),
      el("div", { class: "row" }, on.box, most.box),
      el("div", { class: "thresholds" }, ...sliders.map((each) => each.box)),
    ),
    line,
  );
  let rows = [];
  return {
    section,
    picture(kind, width, height, data) {
      const canvas = kind === 1 ? frame : tensor,
        image = new ImageData(width, height);
      for (let i = 0, j = 0; i < data.length; i += 3, j += 4) {
        image.data[j] = data[i];
        image.data[j + 1] = data[i + 1];
        image.data[j + 2] = data[i + 2];
        image.data[j + 3] = 255;
      }
      if (canvas.width !== width || canvas.height !== height) {
        canvas.width = width;
        canvas.height = height;
        const scale = Math.max(1, Math.min(160 / width, 120 / height));
        canvas.style.width = `${Math.round(width * scale)}px`;
        canvas.style.height = `${Math.round(height * scale)}px`;
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
      (kind === 1 ? frameBox : tensorBox).hidden = false;
    },
    show(state, rate) {
      shape = state.model.shape ?? [];
      unsigned = !!state.model.unsigned;
      pictures.hidden = !shape.length;
      say(figures.n, state.n === undefined ? "–" : count(state.n));
      say(figures.rate, state.n === undefined ? "–" : rate.toFixed(rate < 10 ? 1 : 0));
      say(figures.ms, state.model.ms ? ms(state.model.ms[0]) : "–");
      say(between, state.model.ms ? expected(state.model.ms) : "");
      say(figures.model, state.model.bytes ? kib(state.model.bytes) : state.model.in ? "loaded" : "none");
      say(error, state.errors ? `error bits that no host has read: ${state.errors}` : "");
      leds.forEach((led, n) => {
        const lit = !!((state.leds >> n) & 1);
        mark(led, "on", lit);
        say(led.lastChild, lit ? " on" : " off");
      });
      const scores = state.scores,
        top = scores.reduce((best, each) => (each[1] > best ? each[1] : best), -129);
      if (rows.length !== scores.length) {
        rows = scores.map(() => ({ name: called(""), bar: el("i"), value: el("span", { class: "num" }) }));
        bars.replaceChildren(
          ...rows.flatMap((row) => [row.name, el("div", { class: "bar" }, row.bar), row.value]),
        );
      }
      scores.forEach(([at, value], n) => {
        const row = rows[n];
        say(row.name, (row.name.title = state.model.labels?.[at] || `class ${at}`));
        mark(row.name, "first", value === top);
        row.bar.style.width = `${((value + 128) / 2.55).toFixed(1)}%`;
        say(row.value, String(value));
      });
      say(stream, state.stream ? "Stop stream" : "Start stream");
      stream.dataset.on = state.stream ? "1" : "";
      if (document.activeElement !== on.input) on.input.checked = !!state.gpio[0];
      if (document.activeElement !== most.input) most.input.checked = !!state.gpio[1];
      sliders.forEach(({ input, value }, n) => {
        if ((document.activeElement !== input && +input.value !== state.gpio[n + 2]) || !value.textContent) {
          input.value = state.gpio[n + 2];
          say(value, String(state.gpio[n + 2]));
        }
      });
    },
  };
}

// Hardware measures its times: they have no band.
const expected = (time) =>
  time.length > 1 ? `expected between ${band(time).replace(" to ", " and ")} ms on the chip` : "measured on the chip";

export function makeTimings(board) {
  const body = el("div", { class: "bars" }),
    note = el("p", { class: "legend" }),
    section = card(
      "half",
      "Time by operator",
      Object.keys(board.tiles).length ? "of the modeled chip" : "as the device says",
      body,
      note,
    );
  let shown = null;
  return {
    section,
    show(engines) {
      const models = Object.entries(engines).filter(([, each]) => each.model.operators),
        key = models.map(([n, each]) => [n, each.model.bytes, ...each.model.ms].join()).join();
      if (key === shown) return;
      shown = key;
      const [first] = models,
        most = first ? Math.max(...first[1].model.operators.map((each) => each[1])) : 1;
      body.replaceChildren(
        ...(first ? first[1].model.operators : []).flatMap(([name, time, low, high, basis]) => {
          const bar = el("i");
          bar.style.width = `${((100 * time) / most).toFixed(1)}%`;
          bar.style.opacity = basis === "estimate" ? 0.5 : 1;
          return [
            called(name),
            el("div", { class: "bar" }, bar),
            el("span", { class: "num", title: `${band([time, low, high])}, ${basis}` }, ms(time)),
          ];
        }),
      );
      say(
        note,
        first
          ? `engine ${first[0]}: ${ms(first[1].model.ms[0])} an inference` +
              (first[1].model.ms.length > 1 ? ` (${band(first[1].model.ms)})` : ", measured") +
              (first[1].model.operators.some((each) => each[4] === "estimate") ? "; pale bars are estimates" : "") +
              (first[1].model.more ? `; and ${first[1].model.more} more` : "")
          : Object.values(engines).some((each) => each.model.in)
            ? "nothing has run"
            : "no model is loaded",
      );
    },
  };
}

export function makeMemory(board) {
  const box = el("div"),
    section = card("half", "Memory", "arena and flash", box);
  let shown = null;
  return {
    section,
    show(engines, flash) {
      const models = Object.entries(engines).map(([n, { model }]) => [n, model]),
        key = JSON.stringify([models.map(([, model]) => [model.bytes, model.head]), flash]);
      if (key === shown) return;
      shown = key;
      box.replaceChildren(
        ...models.flatMap(([n, model]) => (board.engines[n].arena ? arena(n, board.engines[n], model) : [])),
        ...Object.entries(board.flash).flatMap(([n, chip]) => flashMap(n, chip, flash[n])),
      );
    },
  };
}

function flashMap(n, { part, size, boot }, segments) {
  const data = segments.length
    ? segments.map(([name, offset, bytes], at) => [name, offset, bytes, at + 4])
    : [["data", boot, size - boot, 4]];
  return map(`flash ${n}, ${part}`, size, [["boot", 0, boot, 3], ...data]);
}

// A bar of pieces of memory, each a name, an offset, its bytes and the number of its color; and a legend.
function map(title, size, pieces) {
  const legend = pieces.map(([name, , bytes, at]) => {
    const dot = el("i");
    dot.style.background = color(at);
    return el("span", {}, dot, `${name} ${kib(bytes)}`);
  });
  return [bar(title, size, pieces), el("p", { class: "legend" }, ...legend)];
}

function bar(title, size, pieces) {
  const root = svg(
    "svg",
    {
      class: "map",
      viewBox: "0 0 400 44",
      role: "img",
      "aria-label": `${title}: ${pieces.map(([name, , bytes]) => `${name} ${kib(bytes)}`).join(", ")} of ${kib(size)}`,
    },
    svg("text", { x: 0, y: 11 }, title),
    svg("text", { x: 400, y: 11, "text-anchor": "end" }, kib(size)),
    svg("rect", { class: "free", x: 0.5, y: 17, width: 399, height: 20, rx: 4 }),
  );
  for (const [name, offset, bytes, n] of pieces) {
    const width = Math.max(1.5, (400 * bytes) / size),
      piece = svg(
        "rect",
        { class: "box", x: (400 * offset) / size, y: 17, width, height: 20, rx: 3 },
        svg("title", {}, `${name}: ${kib(bytes)} at ${offset}`),
      );
    piece.style.fill = color(n);
    root.append(piece);
  }
  return root;
}

function arena(n, engine, model) {
  const pieces = model.bytes
    ? [
        ...(model.memory === "arena" ? [["model", 0, model.bytes, 0]] : []),
        ["tensors", ...model.head, 1],
        ["interpreter", ...model.tail, 2],
      ]
    : [];
  const parts = map(`engine ${n}, arena`, engine.arena, pieces);
  if (model.plan?.length) {
    const steps = Math.max(...model.plan.map((each) => each[1])) + 1,
      high = Math.max(...model.plan.map((each) => each[2] + each[3]));
    const root = svg("svg", {
      class: "map",
      viewBox: "0 0 400 110",
      role: "img",
      "aria-label": `Tensors of engine ${n} by operator: ${kib(high)}`,
    });
    model.plan.forEach(([first, end, offset, size], at) => {
      const x = (400 * Math.max(0, first)) / steps,
        width = (400 * (end + 1 - Math.max(0, first))) / steps,
        rect = svg(
          "rect",
          {
            class: "box",
            x,
            y: 104 - (100 * (offset + size)) / high,
            width,
            height: Math.max(1, (100 * size) / high),
            rx: 2,
          },
          svg("title", {}, `${kib(size)} at ${offset}, operators ${first} to ${end}`),
        );
      rect.style.fill = color(at);
      root.append(rect);
    });
    parts.push(root);
  }
  return parts;
}

export function makeTraffic(board) {
  const names = ["USB", ...(board.spi < 0 ? [] : ["SPI"]), "all channels"],
    sum = (numbers) => numbers.reduce((a, b) => a + b, 0),
    box = el("div", { class: "plot" }),
    table = el("table", { class: "vh" }, el("caption", {}, "Traffic in the last second")),
    cells = {};
  for (const name of names)
    table.append(el("tr", {}, el("th", { scope: "row" }, name), (cells[name] = el("td"))));
  const section = card("", "Traffic", `bytes a second, last ${SECONDS} s`, box, table);
  const data = [[], ...names.map(() => [])];
  // A canvas knows no variables: an element has a color computed.
  const probe = section.appendChild(el("i"));
  function css(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }
  let plot = null,
    due = 0;
  function make() {
    plot?.destroy();
    const axis = {
      stroke: () => css("--dim"),
      grid: { stroke: () => css("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui",
    };
    plot = new uPlot(
      {
        width: box.clientWidth,
        height: 190,
        cursor: { y: false },
        legend: { live: false },
        scales: {
          x: { time: false },
          y: {
            distr: 3,
            log: 10,
            range: (u, low, high) => [1, Math.max(100, 10 ** Math.ceil(Math.log10(high || 1)))],
          },
        },
        axes: [
          {
            ...axis,
            incrs: [1, 2, 5, 10, 20, 30],
            values: (u, values) => values.map((v) => `${Math.round(v - (data[0].at(-1) ?? 0))} s`),
          },
          {
            ...axis,
            size: 60,
            values: (u, values) => values.map((v) => (v && Number.isInteger(Math.log10(v)) ? bytes(v) : "")),
          },
        ],
        series: [
          {},
          ...names.map((label, n) => ({
            label,
            stroke: () => css(COLORS[n % COLORS.length]),
            width: 2,
            points: { show: false },
          })),
        ],
      },
      data,
      box,
    );
  }
  new ResizeObserver(() => {
    if (plot && plot.width !== box.clientWidth) plot.setSize({ width: box.clientWidth, height: 190 });
  }).observe(box);
  return {
    section,
    restyle: () => plot?.redraw(false),
    show(time, rates) {
      if (time < due) return;
      due = time + 0.25;
      const { usb, spi } = rates.ports,
        now = [sum(usb), ...(board.spi < 0 ? [] : [spi]), sum(Object.values(rates.links))];
      data[0].push(time);
      now.forEach((value, n) => {
        data[n + 1].push(value < 1 ? null : value);
        say(cells[names[n]], `${bytes(value)} a second`);
      });
      while (data[0][0] < time - SECONDS) data.forEach((column) => column.shift());
      if (plot) plot.setData(data);
      else if (data[0].length > 2) make();
    },
  };
}

export function makeLog() {
  const list = el("ol", { class: "log", tabindex: 0, "aria-label": "Log, newest last" }),
    older = el("li", { class: "warn" }, el("span"));
  let gone = 0; // lines that did not come, or made room
  return {
    section: card("", "Log", "debug logs of the engines, and the device's own", list),
    add(lines, missed) {
      const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
      for (const [time, level, name, text] of lines)
        list.append(
          el(
            "li",
            { class: level >= 40 ? "bad" : level >= 30 ? "warn" : "" },
            el("time", {}, time ? new Date(time * 1000).toTimeString().slice(0, 8) : "before"),
            el("b", {}, name.replace(/^aisrv\./, "")),
            el("span", {}, text),
          ),
        );
      gone += missed || 0;
      older.remove();
      for (; list.childElementCount > 500; gone++) list.firstChild.remove();
      if (gone) list.prepend(older);
      older.firstChild.textContent = `${gone} older lines are not shown`;
      if (atEnd) list.scrollTop = list.scrollHeight;
    },
  };
}

export function makeMany(open) {
  const box = el("nav", { class: "many", "aria-label": "Devices" }),
    tiles = {},
    before = {};
  return {
    section: box,
    show(state) {
      for (const [name, each] of Object.entries(state.devices)) {
        let tile = tiles[name];
        if (!tile) {
          tile = tiles[name] = {
            n: el("span"),
            dots: el("span", { class: "dots", "aria-hidden": "true" }),
            rate: el("span", { class: "legend" }),
            trouble: el("span"),
          };
          tile.box = el(
            "a",
            {
              href: `#see=${encodeURIComponent(name)}`,
              onclick: (event) => {
                event.preventDefault();
                open(name);
              },
            },
            el("b", {}, `${name} ${each.serial}`),
            tile.n,
            tile.rate,
            tile.dots,
            tile.trouble,
          );
          box.append(tile.box);
        }
        const old = before[name] ?? [state.t, each.n],
          seconds = Math.max(0.001, state.t - old[0]);
        say(tile.n, `${count(each.n)} inferences`);
        say(tile.dots, [0, 1, 2, 3].map((n) => ((each.leds >> n) & 1 ? "●" : "○")).join(""));
        if (seconds >= 0.2 || !before[name]) {
          say(tile.rate, `${((each.n - old[1]) / seconds).toFixed(0)} a second`);
          mark(tile.box, "busy", each.n > old[1]);
          before[name] = [state.t, each.n];
        }
        const trouble = [each.halted && `${each.halted} halted`, each.errors].filter(Boolean).join(", ");
        say(tile.trouble, trouble);
        mark(tile.box, "bad", trouble !== "");
      }
    },
  };
}
