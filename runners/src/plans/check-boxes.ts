import { findChecks } from "./item-gates.js";
import { type ItemStatus, type Mark, type Plan, type PlanItem, uniqueId } from "./plan.js";

/** A check box of the file. */
interface Box {
  readonly indent: number;
  readonly mark: Mark;
  readonly status: ItemStatus;
  readonly id: string | undefined;
  readonly title: string;
  readonly line: string;
  readonly isParallel: boolean;
  readonly isOptional: boolean;
  readonly section: readonly string[];
  /** The lines below the box that belong to it. */
  readonly text: string[];
  readonly parent: Box | undefined;
  /** The commands of a "Checkpoint" line after the box. They are gates of the whole section. */
  readonly checkpoint: string[];
}

/** Reads a Markdown list with check boxes. If the file has none, returns what the file is instead. */
export function readCheckBoxes(bytes: Buffer, path: string): Omit<Plan, "path"> | string {
  const text = bytes.toString("utf8");
  if (text.includes("\0")) return "a binary file";
  const all = findBoxes(bytes);
  const work = all.filter(({ section }) => !section.some((heading) => NO_WORK.test(heading)));
  const boxes = work.length > 0 ? work : all;
  if (boxes.length === 0) return describe(text, path);
  return { format: formatOf(text, path, boxes), items: toItems(boxes) };
}

/** Matches headings whose boxes aren't items: examples, criteria for reviewers, and future work. */
const NO_WORK =
  /^(?:format|example|notation|template|legend)\b|\b(?:check-?list|definition of done|(?:acceptance|success|completion|exit) criteria|success metrics|sign-?off|dod|out of scope|future (?:work|enhancements))\b/i;

const BOX = /^([ \t]*(?:>[ \t]?)*)([-*+]|\d+[.)])([ \t]+\[)([^\]]{0,2})(\])(\\?\*)?[ \t]+(?=\S)/u;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*\s*$/;
const FENCE = /^\s*(`{3,}|~{3,})/;

function findBoxes(bytes: Buffer): readonly Box[] {
  const boxes: Box[] = [];
  const section: { readonly depth: number; readonly title: string }[] = [];
  let around: Box[] = [];
  let fence: string | undefined;
  let isComment = false;
  for (const { line, start } of linesOf(bytes)) {
    const fenced = FENCE.exec(line)?.[1];
    if (fenced !== undefined && (fence === undefined || fenced.startsWith(fence)))
      fence = fence === undefined ? fenced : undefined;
    if (fence === undefined && line.includes("<!--")) isComment = true;
    const isProse = fence === undefined && fenced === undefined && !isComment;
    if (line.includes("-->")) isComment = false;
    const heading = isProse ? HEADING.exec(line) : null;
    const indent = measureIndent(line);
    if (heading !== null) {
      const [, marks = "", title = ""] = heading;
      while ((section.at(-1)?.depth ?? 0) >= marks.length) section.pop();
      section.push({ depth: marks.length, title });
      around = [];
    } else if (isProse && BOX.test(line)) {
      around = around.filter((box) => box.indent < indent);
      const headings = section.map(({ title }) => title);
      const box = toBox(line, start, headings, around.at(-1));
      around.push(box);
      boxes.push(box);
    } else if (line.trim() !== "") {
      const owner = around.findLast((box) => box.indent < indent);
      const last = boxes.at(-1);
      if (owner !== undefined) owner.text.push(line.trimEnd().slice(Math.min(owner.indent + 2, indent)));
      else if (last !== undefined && isProse && /^\W*checkpoint\b/i.test(line))
        last.checkpoint.push(...findChecks([line]).gates);
    }
  }
  return boxes;
}

function* linesOf(bytes: Buffer): Generator<{ readonly line: string; readonly start: number }> {
  // Positions are in bytes: the file may contain bytes that aren't UTF-8, and they must stay unchanged.
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (start < bytes.length) {
    const end = bytes.indexOf(10, start);
    const next = end === -1 ? bytes.length : end + 1;
    yield { line: bytes.toString("utf8", start, next).replace(/\r?\n$/, ""), start };
    start = next;
  }
}

function measureIndent(line: string): number {
  const [blanks = ""] = /^[ \t]*/.exec(line) ?? [];
  return blanks.replaceAll("\t", "    ").length;
}

/** Matches the id at the beginning of a title: `T012`, `US-001`, `1.2`, `Task 3:`. */
const ID =
  /^(?:\[?([A-Z]{1,8}(?:[-_]\d|\d{2}|\d(?=[:.)\]]))[\w.]*(?:-\d+)*)\]?(?=[\s:.)*\]–—-]|$)|(?:[Tt]ask|[Ss]tep|[Ss]ub-?[Tt]ask|[Ss]tory|[Ii]tem)\s+#?(\d+(?:\.\d+)*)(?=\s*[:.)–—-])|(\d+(?:\.\d+)*[a-z]?)(?=[.):]?(?:\s|\*)))[\s.:)*\]–—-]*/;
const TAG = /^\s*(?:\[([^\]]{1,24})\](?!\()|\((P)\))\s*/;

function toBox(line: string, start: number, section: readonly string[], parent: Box | undefined): Box {
  const [all = "", lead = "", bullet = "", open = "", sign = "", , star] = BOX.exec(line) ?? [];
  const at = start + Buffer.byteLength(lead + bullet + open);
  const status = statusOf(sign);
  const mark = { start: at, end: at + Buffer.byteLength(sign), done: "x", open: " ", isDone: status === "done" };
  let rest = line.slice(all.length).trim();
  const isStruck = /^~~.*~~\W*$/.test(rest);
  const bold = /^(?:\*\*|__|`|~~)+/.exec(rest)?.[0] ?? "";
  const numbered = ID.exec(rest.slice(bold.length));
  const [, code, named, number] = numbered ?? [];
  // "Step 1:" inside an item names a part of that item.
  const isOfParent = parent === undefined || named?.startsWith(`${parent.id}.`) === true;
  const id = code ?? number ?? (isOfParent ? named : undefined);
  if (id !== undefined) rest = rest.slice(bold.length + (numbered?.[0].length ?? 0));
  const tags: string[] = [];
  for (let tag = TAG.exec(rest); tag !== null; tag = TAG.exec(rest)) {
    tags.push(tag[1] ?? tag[2] ?? "");
    rest = rest.slice(tag[0].length);
  }
  const title = rest.replaceAll(/\*\*|~~|__/g, "").trim();
  return {
    ...{ mark, section, parent, line: line.slice(all.length), text: [], checkpoint: [], indent: measureIndent(line) },
    id: id?.replace(/\.$/, ""),
    title: title === "" ? line.slice(all.length).trim() : title,
    status: isStruck && status !== "done" ? "deferred" : status,
    isParallel: tags.some((tag) => /^p$/i.test(tag)),
    isOptional:
      star !== undefined || tags.some((tag) => /^optional$/i.test(tag)) || /[([*]\s*optional\s*[)\]*]/i.test(title),
  };
}

function statusOf(sign: string): ItemStatus {
  if (/^[xX✓✔✅☑]/u.test(sign)) return "done";
  if (/^\s*$/.test(sign)) return "open";
  return /^[>!?]/.test(sign) ? "deferred" : "begun";
}

/**
 * Returns the items. A box without an id inside another box is a part of that box; all other boxes are items. An item
 * comes after the items inside it, which are found by indentation or by number.
 */
function toItems(boxes: readonly Box[]): readonly PlanItem[] {
  const owners = boxes.filter((box) => box.parent === undefined || box.id !== undefined);
  const isPartOf = (box: Box, owner: Box): boolean =>
    box.parent !== undefined && box.id === undefined && (box.parent === owner || isPartOf(box.parent, owner));
  const taken = new Set<string>();
  const ids = new Map(owners.map((box) => [box, uniqueId(box.id ?? slugOf(box.title), taken)]));
  const parents = new Map(owners.map((box, index) => [box, parentOf(box, owners.slice(0, index))]));
  const childrenOf = (box: Box) => owners.filter((other) => parents.get(other) === box);
  const named = new Map(owners.map((box) => [box.id, ids.get(box)]));
  /**
   * For each parallel box, the id of the first box in its group: a group is a row of parallel boxes in one section,
   * with one parent.
   */
  const beside = new Map<Box, string>();
  for (const [index, box] of owners.entries()) {
    const before = owners[index - 1];
    const isNext =
      before !== undefined &&
      parents.get(before) === parents.get(box) &&
      before.section.join("\n") === box.section.join("\n");
    if (box.isParallel) beside.set(box, (isNext ? beside.get(before) : undefined) ?? ids.get(box) ?? "");
  }
  const toItem = (box: Box): PlanItem => {
    const parts = boxes.filter((other) => isPartOf(other, box));
    const children = childrenOf(box).filter(({ status, isOptional }) => !isOptional && status !== "deferred");
    const around: string[] = [];
    for (let parent = parents.get(box); parent !== undefined; parent = parents.get(parent)) {
      around.unshift([parent.line, ...parent.text].join("\n"));
    }
    const lines = [...box.text, ...parts.map((part) => [`- ${part.line}`, ...part.text].join("\n"))];
    const { gates, checks } = findChecks([
      box.title,
      ...box.text,
      ...parts.flatMap((part) => [part.title, ...part.text]),
    ]);
    return {
      id: ids.get(box) ?? "",
      title: box.title,
      text: lines.join("\n"),
      within: [...box.section, ...around],
      status: box.status,
      ...(box.isParallel && { beside: beside.get(box) ?? "" }),
      isOptional: box.isOptional,
      isGroup: childrenOf(box).length > 0 && box.text.every((line) => /^\W*_.*_\W*$/.test(line)) && parts.length === 0,
      after: [
        ...children.flatMap((child) => ids.get(child) ?? []),
        ...namedBefore(box).flatMap((id) => named.get(id) ?? []),
      ].filter((id) => id !== ids.get(box)),
      gates: [...new Set([...gates, ...checkpointOf(box, owners)])],
      checks,
      marks: [box.mark, ...parts.map(({ mark }) => mark)],
    };
  };
  const inOrder = (box: Box): PlanItem[] => [...childrenOf(box).flatMap(inOrder), toItem(box)];
  return owners.filter((box) => parents.get(box) === undefined).flatMap(inOrder);
}

/** Returns the item around a box, by indentation or by number: `2.1` is inside the nearest `2` above it. */
function parentOf(box: Box, before: readonly Box[]): Box | undefined {
  let around = box.parent;
  while (around !== undefined && !before.includes(around)) around = around.parent;
  if (around !== undefined) return around;
  const prefix = /^(\d+(?:\.\d+)*)\.\d+$/.exec(box.id ?? "")?.[1];
  return prefix === undefined ? undefined : before.findLast(({ id }) => id === prefix || id === `${prefix}.0`);
}

/** Returns the ids that a box depends on: `depends on T002, T003`. */
function namedBefore(box: Box): readonly string[] {
  const texts = [box.line, ...box.text]
    .join("\n")
    .matchAll(
      /\b(?:depends? on|dependenc(?:y|ies)|blocked by|after):?[ *_]*((?:[\w.-]*\d[\w.-]*(?:,? and |, ?|\b))+)/gi,
    );
  return [...texts].flatMap(([, ids = ""]) => ids.split(/,? and |, ?/)).map((id) => id.replace(/\.$/, ""));
}

/** Returns the commands of the section's checkpoint if the box is the section's last item that isn't done. */
function checkpointOf(box: Box, owners: readonly Box[]): readonly string[] {
  const own = owners.filter(
    (other) => other.section === box.section || other.section.join("\n") === box.section.join("\n"),
  );
  const last = own.findLast(({ status, isOptional }) => (status === "open" || status === "begun") && !isOptional);
  return last === box ? own.flatMap(({ checkpoint }) => checkpoint) : [];
}

function slugOf(title: string): string {
  const words =
    title
      .normalize("NFKD")
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.slice(0, 5).join("-").slice(0, 40) || "item";
}

function formatOf(text: string, path: string, boxes: readonly Box[]): string {
  if (/[\\/]\.kiro[\\/]/.test(path) || /^\s*- _Requirements:/m.test(text)) return "Kiro";
  if (/[\\/]openspec[\\/]/.test(path)) return "OpenSpec";
  if (/[\\/]\.?agent-os[\\/]/.test(path)) return "Agent OS";
  if (boxes.some(({ id }) => /^T\d{3}/.test(id ?? ""))) return "spec-kit";
  if (/^## Tasks ?\/ ?Subtasks/m.test(text)) return "BMAD story";
  return "check-box list";
}

/** Describes a file without check boxes, for the error message. */
function describe(text: string, path: string): string {
  if (/\bvalidation (?:loops?|gates?)\b/i.test(text) && /^#/m.test(text)) return "a PRP; waymark prp run runs it";
  if (/\.ya?ml$/i.test(path)) return "YAML; waymark oneshot runs plans of commands in YAML";
  if (!/\.(?:md|markdown|mdx|txt)$/i.test(path))
    return `a file named *${/\.[^./\\]+$/.exec(path)?.[0] ?? ""} without check boxes`;
  const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0;
  return `Markdown without check boxes, with ${count(HEADINGS)} headings and ${count(BULLETS)} list items`;
}

const HEADINGS = /^#{1,6} /gm;
const BULLETS = /^\s*(?:[-*+]|\d+[.)])\s/gm;
