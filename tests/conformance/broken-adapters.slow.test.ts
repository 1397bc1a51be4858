import { describe } from "vitest";
import { SLOW_GROUPS, testBrokenAdapters } from "./broken-adapters.js";

describe("an adapter that is wrong in one thing between processes", () => {
  testBrokenAdapters((group) => SLOW_GROUPS.includes(group));
});
