// What takes the place of the bus's panel where the page shows a device that a host reaches.
import { card, el, mark, say } from "./dom.js";

export function makeReset(act) {
  const said = el("p", { class: "said", role: "status" });
  const button = el(
    "button",
    {
      type: "button",
      onclick: async () => {
        const wrong = await act("reset", {});
        say(said, wrong || "reset: done");
        mark(said, "bad", !!wrong);
      },
    },
    "Reset device",
  );
  return {
    section: card("", "Bus", "a command in progress is abandoned", el("div", { class: "row gap" }, button), said),
    show() {},
  };
}
