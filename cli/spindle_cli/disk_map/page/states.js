// What a cell looks like and what it is called. Each state has a colour and a sign: colour alone tells nobody apart who does not see it.

/** state → CSS class, sign, meaning. */
export const STATES = {
  Active: ["active", "", "in use"],
  Provisioning: ["new", "+", "being prepared"],
  Backfilling: ["new", "«", "new, moves populate it"],
  Replacing: ["new", "±", "a new disk is being added"],
  Cordoned: ["held", "=", "takes no new replicas"],
  Draining: ["held", "»", "its replicas are moved away"],
  Failed: ["failed", "×", "cannot serve its replicas"],
  Evacuating: ["failed", "»", "failed, its replicas are rebuilt elsewhere"],
  Evacuated: ["empty", "○", "empty: safe to pull"],
  Drained: ["empty", "○", "empty: safe to pull"],
  Removed: ["empty", "–", "no longer a disk of the broker"],
  Unknown: ["unknown", "?", "not observed yet"],
};

/** Class and sign of a disk: a disk in use has those of its usage level, or of the agent's suspicion. */
export function look(disk) {
  const [kind, sign] = STATES[disk.state] ?? STATES.Unknown;
  if (disk.state !== "Active") return [kind, sign];
  if (disk.verdict) return ["suspect", "!"];
  if (disk.level) return disk.level === "Warn" ? ["warn", "▴"] : ["pressed", "▲"];
  return [kind, sign];
}

/** Whether a person may want to look at the disk. */
export function needsAttention(disk) {
  return disk.state !== "Active" || Boolean(disk.verdict) || Boolean(disk.level);
}

/** Rows of the legend: class, sign, text. */
export const LEGEND = [
  ["active", "", "Active"],
  ["warn", "▴", "Active, usage level Warn"],
  ["pressed", "▲", "Active, usage level Move or higher"],
  ["suspect", "!", "Active, but the agent suspects it"],
  ["new", "+", "Provisioning"],
  ["new", "«", "Backfilling"],
  ["new", "±", "Replacing"],
  ["held", "=", "Cordoned"],
  ["held", "»", "Draining"],
  ["failed", "×", "Failed"],
  ["failed", "»", "Evacuating"],
  ["empty", "○", "Evacuated or Drained: safe to pull"],
  ["unknown", "?", "not observed"],
];
