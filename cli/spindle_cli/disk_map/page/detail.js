// The dialog about one disk. It is read again while it is open: when its broker changes, and every ten seconds.

import { clock, counted, el, size, until } from "./format.js";
import { copyable } from "./side.js";

const AGAIN_MS = 10_000;

export class Detail {
  constructor(dialog) {
    this.dialog = dialog;
    this.title = dialog.querySelector("#detail-title");
    this.body = dialog.querySelector("#detail-body");
    this.broker = null;
    this.disk = null;
    this.from = null;
    dialog.querySelector("#close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => this.#closed());
  }

  open(broker, disk, from) {
    [this.broker, this.disk, this.from] = [broker, disk, from];
    this.title.textContent = `${broker} ${disk}`;
    this.body.replaceChildren(el("p", { class: "soft" }, "Reading…"));
    if (!this.dialog.open) this.dialog.showModal();
    this.read();
    clearInterval(this.timer);
    this.timer = setInterval(() => this.read(), AGAIN_MS);
  }

  /** Read again, if it shows a disk of one of these brokers. */
  changed(names) {
    if (this.dialog.open && names.includes(this.broker)) this.read();
  }

  async read() {
    const [broker, disk] = [this.broker, this.disk];
    let found;
    try {
      const answer = await fetch(`disk?${new URLSearchParams({ broker, disk })}`);
      found = answer.headers.get("Content-Type")?.startsWith("application/json") ? await answer.json() : { error: await answer.text() };
    } catch (error) {
      found = { error: `Cannot be read: ${error.message}` };
    }
    if (!this.dialog.open || broker !== this.broker || disk !== this.disk) return;
    if (found.error) this.body.replaceChildren(el("p", { role: "alert" }, found.error));
    else this.#show(found);
  }

  #show(found) {
    this.title.textContent = found.title;
    const focus = document.activeElement?.getAttribute("aria-label");
    this.body.replaceChildren(
      el("p", { class: "state-line" }, el("b", {}, found.cell.state), found.message ? `: ${found.message}` : ""),
      el("dl", { class: "facts" }, ...found.facts.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
      ...forecast(found.forecast),
      ...moves(found.moves),
      el("h3", {}, "History"),
      found.eventsError ? el("p", { role: "alert" }, found.eventsError) : "",
      history(found.history),
      el("h3", {}, "Commands"),
      ...found.commands.map((each) => el("div", { class: "command-row" }, el("p", {}, each.label), copyable(each.command, each.label))),
    );
    // What had the focus was replaced.
    if (focus && !this.dialog.contains(document.activeElement)) this.body.querySelector(`[aria-label="${CSS.escape(focus)}"]`)?.focus();
  }

  #closed() {
    clearInterval(this.timer);
    if (this.from?.isConnected) this.from.focus();
  }
}

function forecast(found) {
  if (!found) return [];
  const growth = `${found.bytesPerSecond < 0 ? "Usage decreases by" : "Usage grows by"} ${size(Math.abs(found.bytesPerSecond) * 86400)} per day.`;
  const rows = found.times.map((each) =>
    el("li", {}, el("b", {}, each.level), ` ${until(each.at)}, ${clock(each.at)}`,
      each.low ? ` (between ${clock(each.low)} and ${each.high ? clock(each.high) : "never"})` : ""));
  return [el("h3", {}, "Forecast"), el("p", {}, growth), rows.length ? el("ul", {}, ...rows) : el("p", { class: "soft" }, "It reaches no threshold within weeks.")];
}

function moves(found) {
  if (!found.length) return [];
  return [
    el("h3", {}, counted(found.length, "move")),
    el("ul", {}, ...found.slice(0, 50).map((each) =>
      el("li", {}, `${each.replica}: ${each.from} → ${each.to}, ${each.state}`,
        each.rate !== null ? `, ${size(each.rate)}/s` : "", each.eta ? `, done ${until(each.eta)}` : "", each.message ? `. ${each.message}` : ""))),
  ];
}

function history(found) {
  if (!found.length) return el("p", { class: "soft" }, "No event is about this disk.");
  return el("ol", { class: "history" }, ...found.map((each) =>
    el("li", { class: each.warning ? "warning" : null }, el("time", { datetime: each.at }, clock(each.at)), " ", el("b", {}, each.what), ` ${each.message}`)));
}
