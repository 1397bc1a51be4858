// LangGraph's own suite for savers. It takes vitest's functions from the global scope.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vitest from "vitest";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  type RunnerTestCase,
  type RunnerTestSuite,
} from "vitest";
import type { StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { WaymarkSaver, type WaymarkSaverOptions } from "waymark/langgraph";

Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi: vitest.vi });
const { deltaChannelHistoryTests, specTest } = await import("@langchain/langgraph-checkpoint-validation");

/**
 * Runs the suite on a storage.
 *
 * @param newStorage - Returns an empty storage, and a function to remove it.
 */
export function registerSuite(
  name: string,
  newStorage: () => Promise<{ readonly storage: StorageAdapter; readonly remove?: () => Promise<void> }>,
  options: Omit<WaymarkSaverOptions, "storage"> = {},
): void {
  const removals = new Map<WaymarkSaver, () => Promise<void>>();
  const initializer = {
    checkpointerName: `WaymarkSaver on ${name}`,
    async createCheckpointer() {
      const { storage, remove = () => Promise.resolve() } = await newStorage();
      const saver = new WaymarkSaver({ storage, ...options });
      removals.set(saver, remove);
      return saver;
    },
    async destroyCheckpointer(saver: WaymarkSaver) {
      await saver.close();
      await removals.get(saver)?.();
    },
  };
  // The reporter prints the counts of suites with this name.
  describe(`LangGraph's suite on ${name}`, () => {
    specTest(initializer);
    deltaChannelHistoryTests(initializer);
    // biome-ignore lint/correctness/noEmptyPattern: vitest checks that the argument is a pattern.
    afterAll(({}, suite) => {
      const modes = testsIn(suite).map(({ mode }) => mode);
      expect(modes).toHaveLength(TESTS);
      expect(modes.filter((mode) => mode !== "run")).toEqual([]);
    });
  });
}

/** Version 1.1 of the suite needs this. */
const TESTS = 726;

function testsIn(suite: Readonly<RunnerTestSuite>): readonly RunnerTestCase[] {
  return suite.tasks.flatMap((task) => (task.type === "suite" ? testsIn(task) : [task]));
}

/** Makes a storage in a new folder. */
export async function inFolder(url: (folder: string) => string) {
  const folder = await mkdtemp(join(tmpdir(), "waymark-langgraph-"));
  return { storage: openStorage(url(folder)), remove: () => rm(folder, { recursive: true }) };
}
