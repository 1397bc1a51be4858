import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { expect, it } from "vitest";
import { newSchema } from "../../support/postgres.js";
import { differences, documentedDifferences, tableOf } from "./kinds.js";
import { newPlace, saverOn } from "./storages.js";

it("docs/langgraph.md shows which kinds of values PostgresSaver returns in another form", async () => {
  const { url, schema } = await newSchema();
  const theirs = PostgresSaver.fromConnString(url, { schema });
  await theirs.setup();
  const here = await tableOf(saverOn(await newPlace("memory")));
  expect(differences(here, await tableOf(theirs))).toBe(await documentedDifferences());
  await theirs.end();
});

it.each(["json-file", "task-file", "sqlite", "postgres"] as const)("each kind becomes the same on %s", async (kind) => {
  expect(await tableOf(saverOn(await newPlace(kind)))).toEqual(await tableOf(saverOn(await newPlace("memory"))));
});
