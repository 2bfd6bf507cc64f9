// Receives the state as server-sent events and gives it to the parts of the page.

import { Detail } from "./detail.js";
import { DiskMap } from "./disks.js";
import { counted, el, renew } from "./format.js";
import * as side from "./side.js";
import { LEGEND, needsAttention } from "./states.js";

const get = (id) => document.getElementById(id);
const detail = new Detail(get("detail"));
const map = new DiskMap(get("map"), (broker, disk, cell) => detail.open(broker, disk, cell), announce);
const said = [];

function announce(text) {
  said.push(text);
  // A screen reader that is told a hundred changes at once says none of them.
  const shown = said.length > 5 ? [`${said.length} disks changed their state.`] : said;
  get("news").replaceChildren(...shown.map((each) => el("span", {}, `${each} `)));
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => said.splice(0), 2000);
}

function receive(event) {
  const news = JSON.parse(event.data);
  if ("head" in news) head(news.head);
  if ("trouble" in news) trouble(news.trouble);
  map.update(news.cards, news.gone, news.full);
  if ("moves" in news) side.moves(get("moves"), news.moves);
  if ("proposals" in news) side.proposals(get("proposals"), news.proposals);
  if (news.cards.length || news.gone.length || news.full) tally();
  detail.changed(news.cards.map((card) => card.name));
  get("connection").textContent = "";
  document.body.classList.remove("stale");
  document.body.dataset.received = String(Number(document.body.dataset.received ?? 0) + 1);
}

function head(found) {
  if (!found) {
    get("phase").textContent = "The KafkaCluster does not exist.";
    for (const list of ["waiting", "conditions"]) get(list).replaceChildren(); // they were of the one that is gone
    return;
  }
  document.title = `${found.name}: Spindle map`;
  get("name").replaceChildren(found.name, " ", el("small", {}, `namespace ${found.namespace}, Kafka ${found.version}${found.paused ? ", paused" : ""}`));
  get("phase").textContent = found.phase;
  side.waiting(get("waiting"), found.waiting);
  side.conditions(get("conditions"), found.conditions);
}

function trouble(found) {
  get("trouble").hidden = !found.length;
  get("trouble").replaceChildren(...found.map((text) => el("li", {}, text)));
}

function tally() {
  const counts = new Map();
  let disks = 0;
  for (const card of map.cards()) {
    for (const disk of card.disks) {
      disks += 1;
      counts.set(disk.state, (counts.get(disk.state) ?? 0) + 1);
    }
  }
  get("tally").replaceChildren(
    el("li", {}, counted(disks, "disk")),
    ...[...counts].sort(([, one], [, other]) => other - one).map(([state, count]) => el("li", {}, `${count.toLocaleString()} ${state}`)),
  );
}

function filter() {
  const words = get("find").value.trim().toLowerCase();
  const only = get("attention").checked;
  map.show((card) =>
    (!words || `${card.id}` === words || [card.name, card.node, card.rack].some((text) => text.toLowerCase().includes(words))) &&
    (!only || card.disks.some(needsAttention)));
}

function next() {
  if (!map.next()) announce("No disk needs attention.");
}

get("find").addEventListener("input", filter);
get("attention").addEventListener("change", filter);
get("next").addEventListener("click", next);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=checkbox])") || get("detail").open) return;
  if (event.key === "n") next();
  else if (event.key === "/") get("find").focus();
  else return;
  event.preventDefault();
});
get("legend").append(
  ...LEGEND.map(([kind, sign, text]) => el("li", {}, el("span", { class: `cell sample ${kind}`, "aria-hidden": "true" }, sign), text)),
  el("li", {}, el("span", { class: "cell sample active marked", "aria-hidden": "true" }), "the line: usage in 7 days at the present growth"),
);

setInterval(() => {
  for (const list of ["waiting", "moves", "proposals"]) renew(get(list));
  map.renew();
}, 10_000);

const live = new EventSource("live");
live.addEventListener("message", receive);
live.addEventListener("error", () => {
  if (!document.body.classList.contains("stale")) {
    document.body.classList.add("stale");
    get("connection").textContent = `No connection to kubectl spindle ui since ${new Date().toLocaleTimeString()}. What you see is from before.`;
  }
});
