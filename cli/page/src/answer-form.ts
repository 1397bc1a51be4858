import type { Json } from "../../src/ui/api-actions.js";

/** A form for an answer, made from the answer's JSON Schema. */
export interface AnswerForm {
  /** False: the answer is the only field's value, or the chosen option itself. */
  readonly isObject: boolean;
  /** A boolean or one of a few values, answered by buttons. `name` is the property that a button sets. */
  readonly choice?: { readonly name: string; readonly options: readonly Option[] };
  readonly fields: readonly AnswerField[];
}

export interface Option {
  readonly text: string;
  readonly value: Json;
}

export interface AnswerField {
  readonly name: string;
  readonly title: string;
  readonly kind: "text" | "number" | "option";
  /** The values to choose from, if `kind` is `option`. */
  readonly options: readonly Option[];
  readonly isRequired: boolean;
}

type JsonObject = { readonly [key: string]: Json };

/** The maximum number of options that are shown as buttons; more options become a list. */
const MOST_BUTTONS = 5;

/** Returns the form; `undefined` if the schema is missing, or too complex for a form. The answer is then raw JSON. */
export function answerForm(schema: Json | undefined): AnswerForm | undefined {
  if (!isObject(schema)) return undefined;
  const { properties, required } = schema;
  if (!isObject(properties)) {
    const only = fieldOf("", schema, true);
    if (only === undefined) return undefined;
    return isChoice(only) ? { isObject: false, choice: only, fields: [] } : { isObject: false, fields: [only] };
  }
  const needed = Array.isArray(required) ? required : [];
  const fields: AnswerField[] = [];
  for (const [name, part] of Object.entries(properties)) {
    const field = fieldOf(name, part, needed.includes(name));
    if (field !== undefined) fields.push(field);
    else if (needed.includes(name)) return undefined;
  }
  const choice = fields.find((field) => field.isRequired && isChoice(field));
  return { isObject: true, ...(choice && { choice }), fields: fields.filter((field) => field !== choice) };
}

/**
 * Returns the answer that a form has now.
 *
 * @param chosen - The option whose button was pressed, if the form has a choice.
 * @param texts - What was typed or selected, by the fields' names.
 * @returns `undefined` if a required field is empty, or a number is wrong.
 */
export function answerOf(
  { isObject: isWhole, choice, fields }: AnswerForm,
  chosen: Option | undefined,
  texts: ReadonlyMap<string, string>,
): { readonly value: Json } | undefined {
  const answer: [string, Json][] = [];
  for (const field of fields) {
    const text = texts.get(field.name) ?? "";
    if (text === "" && !field.isRequired) continue;
    const value = parseField(field, text);
    if (value === undefined) return undefined;
    answer.push([field.name, value.value]);
  }
  if (choice !== undefined && chosen !== undefined) answer.push([choice.name, chosen.value]);
  if (isWhole) return { value: Object.fromEntries(answer) };
  const [only] = answer;
  return only && { value: only[1] };
}

function parseField({ kind, options }: AnswerField, text: string): { readonly value: Json } | undefined {
  if (text === "") return undefined;
  if (kind === "option") return options.find((option) => option.text === text);
  if (kind === "text") return { value: text };
  const number = Number(text);
  return Number.isFinite(number) ? { value: number } : undefined;
}

function fieldOf(name: string, schema: Json | undefined, isRequired: boolean): AnswerField | undefined {
  if (!isObject(schema)) return undefined;
  const { type, title, description } = schema;
  const named = typeof title === "string" ? title : name;
  const about = typeof description === "string" && description !== named ? description : "";
  const options = optionsOf(schema);
  const base = {
    name,
    title: [named, about].filter((text) => text !== "").join(": "),
    options: options ?? [],
    isRequired,
  };
  if (options !== undefined) return { ...base, kind: "option" };
  if (type === "string") return { ...base, kind: "text" };
  return type === "number" || type === "integer" ? { ...base, kind: "number" } : undefined;
}

function optionsOf(schema: JsonObject): readonly Option[] | undefined {
  const { type, enum: values, anyOf } = schema;
  if (type === "boolean")
    return [
      { text: "Approve", value: true },
      { text: "Reject", value: false },
    ];
  const constants = Array.isArray(anyOf) ? anyOf.map((one) => (isObject(one) ? one["const"] : undefined)) : [];
  const given = Array.isArray(values) ? values : constants;
  const options: Option[] = [];
  for (const value of given) {
    if (value === undefined) return undefined;
    options.push({ text: typeof value === "string" ? value : JSON.stringify(value), value });
  }
  return options.length === 0 ? undefined : options;
}

function isChoice({ kind, options }: AnswerField): boolean {
  return kind === "option" && options.length <= MOST_BUTTONS;
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
