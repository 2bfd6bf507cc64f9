// The map itself: a section per rack, a row per broker, a cell per disk. One grid per rack, one tab stop for all of them.

import { counted, el, size, until } from "./format.js";
import { needsAttention, look } from "./states.js";

export class DiskMap {
  /** @param open called with a broker's name, a disk's name and the cell when the user opens a disk. */
  constructor(root, open, announce) {
    this.root = root;
    this.open = open;
    this.announce = announce;
    this.racks = new Map(); // rack → {section, grid, count}
    this.rows = new Map(); // broker's name → {row, card, cells, header}
    this.current = null; // the cell that has the tab stop
    this.filter = () => true;
    root.addEventListener("click", (event) => this.#clicked(event));
    root.addEventListener("keydown", (event) => this.#pressed(event));
    root.addEventListener("focusin", (event) => event.target.matches(".cell") && this.#stopAt(event.target));
  }

  /** Show brokers that are new or have changed, and remove those that are gone. */
  update(cards, gone, full) {
    const names = new Set(cards.map((card) => card.name));
    if (full) gone = [...this.rows.keys()].filter((name) => !names.has(name));
    for (const name of gone) this.#remove(name);
    const fresh = new Map();
    for (const card of cards.sort((one, other) => one.id - other.id)) {
      const entry = this.rows.get(card.name);
      if (entry && entry.card.rack === card.rack) this.#change(entry, card, !full);
      else {
        if (entry) this.#remove(card.name);
        if (!fresh.has(card.rack)) fresh.set(card.rack, []);
        fresh.get(card.rack).push(this.#made(card));
      }
    }
    for (const [rack, rows] of [...fresh].sort(([one], [other]) => compare(one, other))) this.#insert(rack, rows);
    this.#keepStop();
    this.#count();
  }

  /** Hide the brokers for which the test is false. */
  show(test) {
    this.filter = test;
    for (const entry of this.rows.values()) entry.row.hidden = !test(entry.card);
    this.#keepStop();
    this.#count();
  }

  /** Bring the times in the descriptions of disks up to date. */
  renew() {
    for (const { card, cells } of this.rows.values()) {
      for (const disk of card.disks) if (disk.next) draw(cells.get(disk.name), card, disk);
    }
  }

  cards() {
    return [...this.rows.values()].map((entry) => entry.card);
  }

  /** Focus the next disk that needs attention after the current one. */
  next() {
    const found = [...this.root.querySelectorAll(".card:not([hidden]) .cell[data-attention]")];
    if (!found.length) return false;
    const after = found.find((cell) => this.current && this.current.compareDocumentPosition(cell) & Node.DOCUMENT_POSITION_FOLLOWING);
    this.#focus(after ?? found[0]);
    return true;
  }

  focusCurrent() {
    if (this.current) this.#focus(this.current);
  }

  #made(card) {
    const header = el("div", { role: "rowheader", class: "card-name" });
    const row = el("div", { role: "row", class: "card" }, header);
    const entry = { row, header, card: null, cells: new Map() };
    this.rows.set(card.name, entry);
    this.#change(entry, card, false);
    return entry;
  }

  #change(entry, card, tell) {
    const before = new Map((entry.card?.disks ?? []).map((disk) => [disk.name, disk]));
    entry.card = card;
    entry.row.dataset.broker = card.name;
    entry.row.dataset.state = card.state;
    entry.row.hidden = !this.filter(card);
    entry.header.replaceChildren(
      el("b", {}, String(card.id)),
      el("span", { class: "node" }, card.node || "no node yet"),
      el("span", { class: card.state === "Running" ? "state" : "state other" }, card.state === "Running" ? "" : card.state),
    );
    entry.header.title = card.message;
    entry.header.setAttribute("aria-label", `Broker ${card.id} on ${card.node || "no node"}, ${card.state}`);
    const names = new Set(card.disks.map((disk) => disk.name));
    for (const [name, cell] of entry.cells) {
      if (!names.has(name)) {
        cell.remove();
        entry.cells.delete(name);
      }
    }
    for (const disk of card.disks) {
      let cell = entry.cells.get(disk.name);
      if (!cell) {
        cell = el("div", { role: "gridcell", tabindex: "-1", "data-disk": disk.name });
        entry.cells.set(disk.name, cell);
        entry.row.append(cell);
      }
      draw(cell, card, disk);
      const old = before.get(disk.name);
      if (tell && old && old.state !== disk.state) this.announce(`Broker ${card.id} ${disk.name} is ${disk.state}, it was ${old.state}.`);
    }
  }

  #insert(name, entries) {
    let rack = this.racks.get(name);
    if (!rack) {
      const id = `rack-${this.racks.size}`;
      const count = el("span", { class: "count" });
      const title = el("h2", { id }, name || "no rack yet", " ", count);
      const grid = el("div", { role: "grid", class: "cards", "aria-labelledby": id, "aria-readonly": "true" });
      const section = el("section", { class: "rack", "aria-labelledby": id, "data-rack": name }, title, grid);
      rack = { section, grid, count };
      this.racks.set(name, rack);
      const later = [...this.racks].filter(([other, each]) => each !== rack && compare(other, name) > 0).sort(([one], [other]) => compare(one, other))[0];
      this.root.insertBefore(section, later ? later[1].section : null);
    }
    if (!rack.grid.children.length) {
      rack.grid.append(...entries.map((entry) => entry.row));
      return;
    }
    const rows = [...rack.grid.children];
    for (const entry of entries) {
      const later = rows.find((row) => this.rows.get(row.dataset.broker).card.id > entry.card.id);
      rack.grid.insertBefore(entry.row, later ?? null);
    }
  }

  #remove(name) {
    const entry = this.rows.get(name);
    if (!entry) return;
    entry.row.remove();
    this.rows.delete(name);
    const rack = this.racks.get(entry.card.rack);
    if (rack && !rack.grid.children.length) {
      rack.section.remove();
      this.racks.delete(entry.card.rack);
    }
  }

  #count() {
    const counts = new Map();
    for (const { card } of this.rows.values()) {
      const found = counts.get(card.rack) ?? [0, 0];
      found[0] += 1;
      found[1] += card.disks.filter(needsAttention).length;
      counts.set(card.rack, found);
    }
    for (const [name, { count }] of this.racks) {
      const [brokers, attention] = counts.get(name) ?? [0, 0];
      count.textContent = counted(brokers, "broker") + (attention ? `, ${attention === 1 ? "1 disk needs" : `${attention} disks need`} attention` : "");
    }
  }

  #clicked(event) {
    const cell = event.target.closest(".cell");
    if (cell) this.#openCell(cell);
  }

  #openCell(cell) {
    this.#focus(cell);
    this.open(cell.closest(".card").dataset.broker, cell.dataset.disk, cell);
  }

  /** Have a tab stop where the user can get to: the cell that had it may be gone or hidden. */
  #keepStop() {
    if (!this.current?.isConnected || this.current.parentElement.hidden) this.#stopAt(this.root.querySelector(".card:not([hidden]) .cell"));
  }

  #stopAt(cell) {
    this.current?.setAttribute("tabindex", "-1");
    this.current = cell;
    cell?.setAttribute("tabindex", "0");
  }

  #focus(cell) {
    this.#stopAt(cell);
    cell.focus();
  }

  #pressed(event) {
    const cell = event.target.closest(".cell");
    if (!cell || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#openCell(cell);
      return;
    }
    const target = this.#target(cell, event);
    if (target === undefined) return;
    event.preventDefault();
    if (target) this.#focus(target);
  }

  /** The cell that a key leads to; null if there is none in that direction, undefined if the key is not ours. */
  #target(cell, event) {
    const row = cell.parentElement;
    const cells = cellsOf(row);
    const index = cells.indexOf(cell);
    const rows = shownRows(row.parentElement);
    const at = rows.indexOf(row);
    const in_row = (other) => (other ? (cellsOf(other)[Math.min(index, cellsOf(other).length - 1)] ?? null) : null);
    switch (event.key) {
      case "ArrowLeft": return cells[index - 1] ?? null;
      case "ArrowRight": return cells[index + 1] ?? null;
      case "ArrowUp": return in_row(rows[at - perLine(row)]);
      case "ArrowDown": return in_row(rows[at + perLine(row)]);
      case "Home": return event.ctrlKey ? in_row(rows[0]) : cells[0];
      case "End": return event.ctrlKey ? in_row(rows.at(-1)) : cells.at(-1);
      case "PageUp": return in_row(this.#inRack(row, -1, at));
      case "PageDown": return in_row(this.#inRack(row, 1, at));
      default: return undefined;
    }
  }

  #inRack(row, step, at) {
    const grids = [...this.root.querySelectorAll(".cards")].filter((grid) => shownRows(grid).length);
    const grid = grids[grids.indexOf(row.parentElement) + step];
    const rows = grid ? shownRows(grid) : [];
    return rows[Math.min(at, rows.length - 1)];
  }
}

/** How a disk is shown, and what a screen reader says. */
function draw(cell, card, disk) {
  const [kind, sign] = look(disk);
  cell.className = `cell ${kind}`;
  if (cell.textContent !== sign) cell.textContent = sign;
  cell.toggleAttribute("data-attention", needsAttention(disk));
  cell.dataset.state = disk.state;
  cell.style.setProperty("--level", `${disk.percent ?? 0}%`);
  if (disk.expected === undefined) cell.style.removeProperty("--mark-at");
  else cell.style.setProperty("--mark-at", `${disk.expected}%`);
  const text = described(card, disk);
  cell.setAttribute("aria-label", text);
  cell.title = text;
}

export function described(card, disk) {
  const parts = [`Broker ${card.id} ${disk.name}`, disk.state];
  if (disk.verdict) parts.push(`the agent's verdict is ${disk.verdict}`);
  if (disk.percent !== undefined) parts.push(`${disk.percent} % ${disk.capacity ? `of ${size(disk.capacity)} ` : ""}used`);
  if (disk.level) parts.push(`usage level ${disk.level}`);
  if (disk.expected !== undefined) parts.push(`${disk.expected} % expected in 7 days`);
  if (disk.next) parts.push(`${disk.next.level} ${until(disk.next.at)}`);
  return parts.join(", ");
}

function compare(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}

function cellsOf(row) {
  return [...row.querySelectorAll(".cell")];
}

function shownRows(grid) {
  return [...grid.children].filter((row) => !row.hidden);
}

/** How many cards stand beside each other: a row above or below is that many rows away. */
function perLine(row) {
  return getComputedStyle(row.parentElement).gridTemplateColumns.split(" ").length;
}
