import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { expect, it } from "vitest";
import { newSchema } from "../../support/postgres.js";
import { documentedKinds, tableOf } from "./kinds.js";
import { newPlace, saverOn } from "./storages.js";

it("docs/langgraph.md says what each kind of value becomes in a PostgresSaver", async () => {
  const { url, schema } = await newSchema();
  const theirs = PostgresSaver.fromConnString(url, { schema });
  await theirs.setup();
  expect(await tableOf(theirs)).toEqual((await documentedKinds()).map(({ postgres }) => postgres));
  await theirs.end();
});

it.each(["json-file", "task-file", "sqlite", "postgres"] as const)("each kind becomes the same on %s", async (kind) => {
  expect(await tableOf(saverOn(await newPlace(kind)))).toEqual((await documentedKinds()).map(({ here }) => here));
});
