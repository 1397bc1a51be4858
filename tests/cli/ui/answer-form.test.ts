// Tests the form that the page makes from a wait's JSON Schema, without a browser.
import { expect, it } from "vitest";
import { z } from "zod";
import { answerForm, answerOf } from "../../../cli/page/src/answer-form.js";
import type { Json } from "../../../cli/src/ui/api-actions.js";

const formOf = (schema: z.ZodType) => answerForm(JSON.parse(JSON.stringify(z.toJSONSchema(schema))) as Json);
const texts = (fields: Readonly<Record<string, string>>) => new Map(Object.entries(fields));

it("has buttons to approve and reject for a boolean", () => {
  const form = formOf(z.boolean())!;
  expect(form.choice?.options.map(({ text }) => text)).toEqual(["Approve", "Reject"]);
  expect(answerOf(form, form.choice?.options[1], texts({}))).toEqual({ value: false });
});

it("has a button for each value of an enum", () => {
  for (const schema of [z.enum(["ship", "wait"]), z.union([z.literal("ship"), z.literal("wait")])]) {
    const form = formOf(schema)!;
    expect(form.choice?.options.map(({ text }) => text)).toEqual(["ship", "wait"]);
    expect(answerOf(form, form.choice?.options[0], texts({}))).toEqual({ value: "ship" });
  }
});

it("sends the other fields of an object with the pressed button", () => {
  const form = formOf(z.object({ approved: z.boolean(), note: z.string().optional(), euros: z.number() }))!;
  expect(form.fields.map(({ name, kind, isRequired }) => [name, kind, isRequired])).toEqual([
    ["note", "text", false],
    ["euros", "number", true],
  ]);
  const [approve] = form.choice?.options ?? [];
  expect(answerOf(form, approve, texts({ euros: "12.5" }))).toEqual({ value: { approved: true, euros: 12.5 } });
  expect(answerOf(form, approve, texts({ note: "fine" }))).toBeUndefined();
  expect(answerOf(form, approve, texts({ euros: "many" }))).toBeUndefined();
});

it("has a field for a text, and none for what it can't ask", () => {
  const form = formOf(z.string())!;
  expect(form).toMatchObject({ isObject: false, fields: [{ kind: "text" }] });
  expect(answerOf(form, undefined, texts({ "": "yes" }))).toEqual({ value: "yes" });
  expect(formOf(z.object({ items: z.array(z.string()) }))).toBeUndefined();
  expect(formOf(z.object({ name: z.string(), items: z.array(z.string()).optional() }))?.fields).toHaveLength(1);
  expect(answerForm(undefined)).toBeUndefined();
});
