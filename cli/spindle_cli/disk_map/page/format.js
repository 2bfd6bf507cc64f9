// Elements and texts. Nothing here, or elsewhere in the page, parses a text as HTML: texts of others are only ever text nodes.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** An element with attributes and children (elements or texts). */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

/** Bytes with a binary unit: 296 MiB. */
export function size(bytes) {
  let value = bytes;
  for (const unit of UNITS) {
    if (Math.abs(value) < 1000 || unit === "PiB") {
      return `${Math.abs(value) >= 10 || unit === "B" ? Math.round(value) : value.toFixed(1)} ${unit}`;
    }
    value /= 1024;
  }
  return "";
}

/** A number of seconds in one unit: 40 s, 12 min, 3 h, 5 d. */
export function span(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.max(0, Math.round(seconds))} s`;
}

/** Time since a moment; empty if it is not known. */
export function ago(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  return at && Number.isFinite(seconds) ? span(seconds) : "";
}

/** Time until a moment: "in 3 h", or "now". */
export function until(at) {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  if (!at || !Number.isFinite(seconds)) return "";
  return seconds < 1 ? "now" : `in ${span(seconds)}`;
}

/** An element with a time relative to now, which `renew` keeps right: `text` is `ago` or `until`. */
export function relative(text, at) {
  const made = el("time", { datetime: at }, text(at));
  made.renew = () => {
    const now = text(at);
    if (made.textContent !== now) made.textContent = now;
  };
  return made;
}

/** Bring the relative times below an element up to date. */
export function renew(root) {
  for (const each of root.querySelectorAll("time")) each.renew?.();
}

/** Nodes and texts with a comma between them. */
export function joined(parts) {
  return parts.flatMap((each, index) => (index ? [", ", each] : [each])).flat();
}

/** Replace the children of a list; the element that has the focus keeps it if there is still one with its label. */
export function replaced(list, ...children) {
  const focus = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  list.replaceChildren(...children);
  if (focus) list.querySelector(`[aria-label="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

/** A moment in the reader's time zone. */
export function clock(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

/** "1 disk", "2 disks". */
export function counted(count, what) {
  return `${count.toLocaleString()} ${what}${count === 1 ? "" : "s"}`;
}
