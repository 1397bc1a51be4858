import { hasCommand, isAfterFailure } from "./commands.js";
import {
  BOLD_DEPTH,
  type Heading,
  hasCode,
  highestDepth,
  numberIn,
  type OutlineItem,
  plain,
  sectionAt,
} from "./outline.js";

/** A part of a PRP: a heading and the items below it. */
export interface Section {
  readonly heading: Heading;
  readonly items: readonly OutlineItem[];
}

/** The sections that hold a PRP's gates, or might. */
export interface SectionChoice {
  /** If the choice is clear, all have the same heading: a PRP may repeat the section for each part of the work. */
  readonly chosen: readonly Section[];
  /** The sections with commands, if none is chosen. Steps of the work and rollbacks are left out. */
  readonly others: readonly Section[];
  /** The headings that say validation, if none of their sections has code. */
  readonly withoutCode: readonly Section[];
}

/**
 * The noun "validation" in the languages of PRPs, without accents. Verbs don't count: "Verify the setup" names a step,
 * not a section.
 */
const VALIDATION =
  /\b[vw]alid(?:ati|ac|az|as|ier|er)|\bverifi(?:cati|cac|caz|kat|kas|zier)|\buberpruf|\bdogrulama|验证|驗證|校验|検証|검증|유효성|валидаци|проверк|перевірк|التحقق|सत्यापन|xac (?:thuc|minh)|kiem (?:tra|thu)/;
/** Matches other words in the section's name, such as "Validation Loop". */
const LOOP = /\b(?:loops?|gates?)\b|循环|循環|ループ|루프|цикл|schleife|bucle|ciclo|boucle/;

/**
 * Chooses the sections that hold a PRP's gates: the sections with code whose heading says validation. Prefers
 * "Validation Loop" to other names, then sections with commands, then sections with named levels.
 *
 * @param name - The heading that the caller chose. It needn't say validation.
 */
export function chooseSection(items: readonly OutlineItem[], name: string | undefined): SectionChoice {
  const titles = items.filter((item) => item.kind === "heading" && item.depth === 1).length;
  const fits =
    name === undefined
      ? (section: Section) => saysValidation(section.heading) && !(titles === 1 && isWholeText(section))
      : fitsName(items, plain(name));
  const found = outermost(items, fits);
  const ranks = found.map(rank);
  const best = ranks.reduce((highest, each) => Math.max(highest, each), 0);
  const chosen = name === undefined ? found.filter((_section, index) => ranks[index] === best) : found;
  const isOther = (section: Section): boolean =>
    hasCommand(section.items) && !(titles === 1 && isWholeText(section)) && !isWork(section.heading);
  const sections = items.flatMap((heading, index) =>
    heading.kind === "heading" && heading.depth < BOLD_DEPTH ? [{ heading, items: sectionAt(items, index) }] : [],
  );
  const withoutCode = sections.filter(({ heading, items: own }) => saysValidation(heading) && !hasCode(own));
  return chosen.length > 0
    ? { chosen, others: [], withoutCode: [] }
    : { chosen, others: outermost(items, isOther), withoutCode };
}

/** Returns the matching sections with code, except those inside another one. */
function outermost(items: readonly OutlineItem[], fits: (section: Section) => boolean): Section[] {
  const sections: Section[] = [];
  for (let index = 0; index < items.length; index++) {
    const heading = items[index];
    if (heading?.kind !== "heading") continue;
    const section = { heading, items: sectionAt(items, index) };
    if (!hasCode(section.items) || !fits(section)) continue;
    sections.push(section);
    index += section.items.length;
  }
  return sections;
}

/** Whether a heading names a step of the work, or what to do after a failure. */
function isWork({ text }: Heading): boolean {
  return isAfterFailure(text) || /^\W*(?:step|phase|task|schritt|paso|etape)\s*\d/i.test(plain(text));
}

/** Accepts the headings that equal the name. If there are none, accepts those that contain it. */
function fitsName(items: readonly OutlineItem[], name: string): (section: Section) => boolean {
  const isNamed = items.some((item) => item.kind === "heading" && plain(item.text) === name);
  return ({ heading }) => (isNamed ? plain(heading.text) === name : plain(heading.text).includes(name));
}

/** Whether a heading names the validation section. A level ("Level 4: …") and a step of a list ("3. …") don't. */
export function saysValidation({ text, depth }: Pick<Heading, "text" | "depth">): boolean {
  const number = numberIn(text);
  return VALIDATION.test(plain(text)) && (number === undefined || (depth < BOLD_DEPTH && !number.isNamed));
}

/** True if the section is the whole text under its only title, "PRP: email validation", so its parts aren't levels. */
function isWholeText({ heading, items }: Section): boolean {
  if (heading.depth > 1) return false;
  // Bold lines and list items don't count.
  const parts = items.filter((item) => item.kind === "heading").filter(({ depth }) => depth < BOLD_DEPTH);
  const highest = highestDepth(parts);
  return parts.some(({ depth, text }) => depth === highest && numberIn(text) === undefined);
}

function rank({ heading, items }: Section): number {
  const isLoop = LOOP.test(plain(heading.text));
  const hasLevels = items.some((item) => item.kind === "heading" && numberIn(item.text)?.isNamed === true);
  return Number(isLoop) * 4 + Number(hasCommand(items)) * 2 + Number(hasLevels);
}
