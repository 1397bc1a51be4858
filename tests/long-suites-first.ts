import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files of a few lines that run suites of others. */
const LONG_SUITES = /\/tests\/(conformance|systems\/langgraph)\//;

/**
 * Vitest begins with the files that took longest. Where nothing has run yet it begins with the largest: then the longest
 * suites came last, and a processor was idle meanwhile.
 */
export class LongSuitesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG_SUITES.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
