// What is done to a device from outside: its bus and cable, faults, a trace.
import { button, bytes, card, count, el, facts, outcome, say } from "./dom.js";

const FAULTS = {
  "stall:in:1": "the next read is answered with STALL",
  "nak:out:1:2s": "the device sees the next write 2 s later",
  "drop:out:1": "the data of the next write are lost",
  "delay:in:1:0.5s": "the host learns of the next read half a second later",
  "truncate:in:1:3": "3 bytes of the next read arrive",
  "disconnect:in:1": "the device goes at the next read; a reset brings it back",
};

export function makeBus(board, act) {
  const { line, tell } = outcome(),
    inside = Object.keys(board.tiles).length > 0,
    row = (...buttons) => el("div", { class: "row gap" }, ...buttons);
  const does = (text, name) => button(text, async () => tell(text, await act(name)));
  const pull = does("Pull the cable", "unplug"),
    put = does("Plug it in", "plug"),
    figures = facts({ out: "USB to the device", in: "USB to the host", ignored: "packets that were no command" }),
    bench = board.bench ? makeBench(act, tell) : null;
  return {
    section: card(
      "",
      "Bus",
      inside ? "what a host does" : "a command in progress is abandoned",
      row(does(inside ? "Reset bus" : "Reset device", "reset"), ...(inside ? [pull, put] : [])),
      ...(bench?.parts ?? [el("p", { class: "legend" }, "Faults and traces need the inside of a device: aisrv run --web")]),
      line,
      ...(inside ? [figures.list] : []),
    ),
    show(state, rates) {
      if (!inside) return;
      [figures.out, figures.in].forEach((figure, n) => say(figure, `${bytes(rates.ports.usb[n])}/s`));
      say(figures.ignored, count(state.ignored));
      const [works, rests] = state.plugged ? [pull, put] : [put, pull];
      works.disabled = false;
      if (document.activeElement === rests) works.focus();
      rests.disabled = true;
      bench?.show(state);
    },
  };
}

function makeBench(act, tell) {
  const spec = el("input", { id: "fault", list: "faults", placeholder: "stall:in:1", required: true, size: 11 }),
    waiting = el("span", { class: "legend" }),
    back = button("Take back", async () => tell("Take back", await act("no-faults")));
  async function inject(event) {
    event.preventDefault();
    tell("Inject", await act("fault", { spec: spec.value }));
  }
  const form = el(
    "form",
    { class: "row gap", onsubmit: inject },
    el("label", { for: "fault" }, "Fault"),
    spec,
    el("datalist", { id: "faults" }, ...Object.entries(FAULTS).map(([value, text]) => el("option", { value }, text))),
    el("button", {}, "Inject"),
    back,
    waiting,
  );
  const trace = button("Start trace", async () => {
    const on = trace.dataset.on ? 0 : 1;
    tell(on ? "Start trace" : "Stop trace", await act("trace", { on }, null, on ? null : download));
  });
  const hint = el("span", { class: "legend" }, "cores, USB, SPI, LEDs: the last 16 MiB; for ui.perfetto.dev");
  return {
    parts: [form, el("div", { class: "row gap" }, trace, hint)],
    show(state) {
      say(waiting, state.faults.length ? `to come: ${state.faults.join(", ")}` : "none to come");
      say(trace, state.traced ? "Stop and download" : "Start trace");
      trace.dataset.on = state.traced ? "1" : "";
    },
  };
}

async function download(answer) {
  const href = URL.createObjectURL(await answer.blob());
  el("a", { href, download: "trace.pftrace" }).click();
  URL.revokeObjectURL(href);
}
