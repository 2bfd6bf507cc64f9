// The lists beside the map: what the cluster waits for, conditions, moves, proposals.

import { ago, counted, el, joined, relative, replaced, size, span, until } from "./format.js";

export function waiting(list, entries) {
  replaced(list,
    ...orNone(entries, "The cluster waits for nothing.", (each) =>
      el("li", {},
        el("h3", {}, `${each.action} ${each.object}`.trim(), " ", el("code", {}, each.reason), ...(each.since ? [" for ", relative(ago, each.since)] : [])),
        el("p", {}, each.message),
        each.unblockedBy ? el("p", { class: "way-out" }, el("b", {}, "To resolve: "), each.unblockedBy) : null,
        copyable(`spindle explain ${each.reason}`, `spindle explain ${each.reason}, of ${each.object}`),
      )),
  );
}

export function conditions(list, entries) {
  replaced(list,
    ...orNone(entries, "All conditions are healthy.", (each) =>
      el("li", {}, el("h3", {}, `${each.type}=${each.status} `, el("code", {}, each.reason)), el("p", {}, each.message))),
  );
}

export function moves(list, found) {
  const shown = found.shown.slice(0, 100);
  replaced(list,
    ...orNone(shown, "No replica is being moved.", (each) =>
      el("li", {},
        el("h3", {}, each.replica, " ", el("span", { class: "soft" }, each.state)),
        el("p", {}, `${each.from || "a new replica"} → ${each.to}`, each.message ? ` (${each.message})` : ""),
        el("p", { class: "figures" }, ...progress(each)),
        each.bytes && each.copied !== null ? el("progress", { max: each.bytes, value: each.copied, "aria-label": `Progress of ${each.replica}` }) : null,
      )),
    found.total > shown.length ? el("li", { class: "soft" }, `and ${counted(found.total - shown.length, "more move")}`) : "",
  );
}

function progress(each) {
  const parts = [];
  if (each.bytes !== null) parts.push(each.copied === null ? size(each.bytes) : `${size(each.copied)} of ${size(each.bytes)}`);
  if (each.rate !== null) parts.push(`${size(each.rate)}/s`);
  if (each.eta) parts.push(["done ", relative(until, each.eta)]);
  return joined(parts);
}

export function proposals(list, entries) {
  replaced(list,
    ...orNone(entries, "There is no proposal.", (each) =>
      el("li", {},
        el("h3", {}, each.name, " ", el("span", { class: "soft" }, each.phase)),
        each.message ? el("p", {}, each.message) : null,
        el("p", { class: "figures" }, ...cost(each)),
        each.gain.length ? el("ul", { class: "gain", "aria-label": "Gain" }, ...each.gain.map(gain)) : null,
        each.phase === "Proposed" ? copyable(each.approve) : null,
      )),
  );
}

function cost(each) {
  const parts = [counted(each.moves, "move"), size(each.bytes)];
  if (each.minutes !== null) parts.push(`about ${span(60 * each.minutes)}`);
  if (each.progress) parts.push(`${each.progress} done`);
  if (each.eta && !each.over) parts.push(["done ", relative(until, each.eta)]);
  if (each.phase === "Proposed") parts.push(["expires ", relative(until, each.expires)]);
  return joined(parts);
}

function gain(each) {
  return el("li", {}, `${each.what}: ${each.before}${each.unit} → `, el("b", {}, `${each.after}${each.unit}`));
}

/** A command with a button that copies it. */
export function copyable(command, label = "") {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy: ${label || command}` }, "Copy");
  const text = el("code", {}, command);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text); // the browser does not permit it: the user copies the selection
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return el("div", { class: "command" }, text, button);
}

function orNone(entries, none, made) {
  return entries.length ? entries.map(made) : [el("li", { class: "soft" }, none)];
}
