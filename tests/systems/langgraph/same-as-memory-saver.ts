import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { expect, it } from "vitest";
import { comparable, type Program } from "./programs.js";
import { newPlace, type StorageKind, saverOn } from "./storages.js";

export function registerPrograms(kind: StorageKind, programs: Readonly<Record<string, Program>>): void {
  it.each(Object.keys(programs))("%s", async (name) => {
    const program = programs[name];
    if (program === undefined) throw new Error("There is no such program.");
    const theirs = new MemorySaver();
    const place = await newPlace(kind);
    const expected = comparable(await program(() => theirs));
    expect(comparable(await program(() => saverOn(place)))).toEqual(expected);
  });
}
