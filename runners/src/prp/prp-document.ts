import { z } from "zod";
import { PrpError } from "./errors.js";
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

export const PrpDocumentSchema = z.object({
  taskId: z.string().min(1),
  title: z.string().optional(),
  /** The coder's prompt. Default: built from the parts below. */
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

/** A Product Requirement Prompt: a coder's task, and the gates that the work must pass. */
export type PrpDocument = z.input<typeof PrpDocumentSchema>;
/** A checked document. */
export type CheckedDocument = z.output<typeof PrpDocumentSchema>;

/** @throws {PrpError} `PRP_INVALID`, with all issues. */
export function checkDocument(prp: unknown, what: string): CheckedDocument {
  const checked = PrpDocumentSchema.safeParse(prp);
  if (checked.success) return checked.data;
  throw new PrpError("PRP_INVALID", `${what} is no PRP document: ${issuesIn(checked.error)}. Nothing was run.`, {
    cause: checked.error,
  });
}

function issuesIn({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.length > 0 ? `${path.join(".")}: ` : ""}${message}`).join("; ");
}

/** Returns a PRP document as Markdown, with a heading for each part that it has. */
export function describeDocument(prp: CheckedDocument): string {
  const { title, objective, context, implementationSteps, successCriteria, references, validationGates } = prp;
  const gates = validationGates.map(
    ({ level, description, command }) =>
      `### Level ${level}: ${description}\n\n${command === null ? "To be checked by hand." : indent(command)}`,
  );
  const sections: [heading: string, text: string | undefined][] = [
    ["Goal", objective],
    ["All Needed Context", context],
    ["Implementation Tasks", implementationSteps?.map((step, i) => `${i + 1}. ${step}`).join("\n")],
    ["Success Criteria", successCriteria?.map(({ description }) => `- ${description}`).join("\n")],
    ["References", references?.map((reference) => `- ${reference}`).join("\n")],
    ["Validation Loop", gates.join("\n\n")],
  ];
  const parts = sections.flatMap(([heading, text]) => (text ? [`## ${heading}\n\n${text}`] : []));
  return [`# ${title ?? prp.taskId}`, ...parts].join("\n\n");
}

/** An indented block can contain any text, even fences. */
export function indent(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}
