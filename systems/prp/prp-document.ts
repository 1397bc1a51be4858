import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import { z } from "zod";
import { reasonOf } from "../../adapters/files/failure.js";
import { PrpError } from "./errors.js";
import { parsePrp } from "./parse-prp.js";
import { describeDocument } from "./prompts.js";

/** Strict: a misspelled `manual` would run what a person is to check. */
export const PrpGateSchema = z.strictObject({
  /** Gates run in the order of their levels; there is one per level. */
  level: z.literal([1, 2, 3, 4], {
    error: ({ input }) => `Levels are 1 to 4; this one is ${JSON.stringify(input) ?? "missing"}`,
  }),
  description: z.string(),
  /** Null, blank, or nothing but comments if a person checks. */
  command: z
    .string()
    .refine((command) => !command.includes("\0"), "A command can't hold a NUL character")
    .nullable(),
  /** A gate that a person checks: it is skipped. Default false. */
  manual: z.boolean().optional(),
  /** What runs the command, so that its first failing line fails the gate. Default `bash`, with `pipefail`. */
  shell: z.enum(["sh", "bash"]).optional(),
});

/** One level of a PRP's Validation Loop. */
export type PrpGate = z.output<typeof PrpGateSchema>;

export const PrpDocumentSchema = z.object({
  taskId: z.string().min(1),
  title: z.string().optional(),
  /** The coder's prompt. Default: made of the parts below. */
  prompt: z.string().optional(),
  objective: z.string().optional(),
  context: z.string().optional(),
  implementationSteps: z.array(z.string()).readonly().optional(),
  successCriteria: z
    .array(z.object({ description: z.string(), satisfied: z.boolean().optional() }))
    .readonly()
    .optional(),
  references: z.array(z.string()).readonly().optional(),
  validationGates: z.array(PrpGateSchema).readonly(),
});

/** A Product Requirement Prompt: what a coder is to do, and the gates that its work has to pass. */
export type PrpDocument = z.output<typeof PrpDocumentSchema>;

/** A PRP, ready to be executed. */
export interface LoadedPrp {
  readonly taskId: string;
  /** Absolute; empty if the PRP came as an object. */
  readonly path: string;
  /** The part of the prompt about the work itself. */
  readonly body: string;
  /** In the order of their levels. */
  readonly gates: readonly PrpGate[];
  /** SHA-256 of the body and of what the gates run. */
  readonly digest: string;
}

/**
 * Reads and checks a PRP.
 *
 * @param prp - The document, or the path of its Markdown file.
 * @param taskId - Wins over the document's own; without either, a file's name is its task.
 * @throws {PrpError} `PRP_UNREADABLE`, or `PRP_INVALID`.
 */
export async function loadPrp(prp: PrpDocument | string, taskId?: string): Promise<LoadedPrp> {
  if (typeof prp !== "string") {
    const document = checkDocument(prp);
    const { prompt = describeDocument(document), validationGates } = document;
    return prepare({ taskId: taskId ?? document.taskId, path: "", body: prompt, gates: validationGates });
  }
  const path = resolve(prp);
  const text = await readPrp(path);
  const parsed = parsePrp(text, path);
  const nameOfFile = basename(path, extname(path));
  return prepare({ taskId: taskId ?? parsed.taskId ?? nameOfFile, path, body: text, gates: parsed.gates });
}

/** Whether the gate has nothing to run. */
export function isSkipped(gate: PrpGate): boolean {
  return gate.manual === true || gate.command === null;
}

const NOTHING_TELLS = "so nothing can show that its work is done";

/** A command that runs nothing always passes, so it counts as none. */
function withoutIdleCommand(gate: PrpGate): PrpGate {
  const runs = gate.command?.split("\n").some((line) => /^\s*[^#\s]/.test(line));
  return runs === true ? gate : { ...gate, command: null };
}

function prepare(parts: Omit<LoadedPrp, "digest">): LoadedPrp {
  const what = parts.path === "" ? `PRP ${JSON.stringify(parts.taskId)}` : `PRP ${parts.path}`;
  const gates = parts.gates.map(withoutIdleCommand).sort((a, b) => a.level - b.level);
  if (gates.length === 0) {
    const where =
      parts.path === ""
        ? "Its validationGates are empty."
        : 'What is looked for are headings "### Level 1: …" to "### Level 4: …" below a "## Validation Loop" heading, ' +
          "each with a ```sh or ```bash block.";
    throw new PrpError("PRP_INVALID", `${what} has no validation gate, ${NOTHING_TELLS}. ${where}`);
  }
  const twice = gates.find((gate, i) => gate.level === gates[i + 1]?.level);
  if (twice !== undefined) {
    throw new PrpError("PRP_INVALID", `${what} has two gates of level ${twice.level}. Put their commands into one.`);
  }
  if (gates.every(isSkipped)) {
    const why = gates.every(({ manual }) => manual === true)
      ? "only manual validation gates"
      : "no gate with a command";
    throw new PrpError(
      "PRP_INVALID",
      `${what} has ${why}, ${NOTHING_TELLS}. Give one of them a command that checks it.`,
    );
  }
  const commands = gates.map((gate) => [gate.level, isSkipped(gate) ? null : [gate.command, gate.shell ?? "bash"]]);
  return { ...parts, gates, digest: hash("sha256", JSON.stringify([parts.body, commands]), "hex") };
}

function checkDocument(prp: PrpDocument): PrpDocument {
  const checked = PrpDocumentSchema.safeParse(prp);
  if (checked.success) return checked.data;
  throw new PrpError("PRP_INVALID", `The PRP is not one:\n${z.prettifyError(checked.error)}`, { cause: checked.error });
}

async function readPrp(path: string): Promise<string> {
  try {
    const text = await readFile(path, "utf8");
    // The Markdown parser skips a BOM, which shifts its offsets by one; to a shell "\r" is a character.
    return text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  } catch (cause) {
    const message = `The PRP ${path} can't be read: ${reasonOf(cause)}. Nothing was run.`;
    throw new PrpError("PRP_UNREADABLE", message, { cause });
  }
}
