import { z } from "zod";
import { describeIssues } from "../options.js";
import { RunnerError } from "../runner-error.js";
import { numberIn } from "./reading/outline.js";

/** A level as people write it: `1`, `1.5`, `"L4"`, `"1 — vet"`. */
const LevelSchema = z
  .union([z.number().min(0), z.string().regex(/\d/, "A level names a number")])
  .transform((level) => {
    if (typeof level === "number") return { number: level, title: "" };
    const found = numberIn(level);
    return { number: found?.number ?? 0, title: found?.rest ?? level };
  });

/** Strict, because a misspelled `manual` would run a gate that a person should check. */
export const PrpGateSchema = z
  .strictObject({
    /**
     * Gates run in the order of their levels; gates of one level keep their order. A level is a number, or a text that
     * begins with one.
     */
    level: LevelSchema,
    description: z.string().optional(),
    /** Null, blank or only comments if a person checks the gate. */
    command: z
      .string()
      .refine((command) => !command.includes("\0"), "A command can't hold a NUL character")
      .nullable(),
    /** A person checks this gate, so it is skipped. Default false. */
    manual: z.boolean().optional(),
  })
  .transform(({ level, description, ...rest }) => ({
    ...rest,
    level: level.number,
    description: description ?? level.title,
  }));

/** One gate of a PRP. */
export type PrpGate = z.output<typeof PrpGateSchema>;

/** Fields that aren't listed are for the coder. */
export const PrpDocumentSchema = z.looseObject({
  taskId: z.string().min(1),
  /** The coder's prompt. Default: the whole document, as JSON. */
  prompt: z.string().optional(),
  validationGates: z.array(PrpGateSchema).readonly(),
});

/** A Product Requirement Prompt: a coder's task, and the gates that the work must pass. */
export type PrpDocument = z.input<typeof PrpDocumentSchema>;
/** A checked document. */
export type CheckedDocument = z.output<typeof PrpDocumentSchema>;

/** @throws {RunnerError} `PRP_INVALID`, with all issues. */
export function checkDocument(prp: unknown, what: string): CheckedDocument {
  const checked = PrpDocumentSchema.safeParse(prp);
  if (checked.success) return checked.data;
  const message = `${what} isn't a PRP document: ${describeIssues(checked.error)}. Nothing was run.`;
  throw new RunnerError("PRP_INVALID", message, { cause: checked.error });
}

/** Indents a text for a prompt. An indented block can contain any text, even fences. */
export function indent(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}
