import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Short files that run the suites of others, and files that take a minute or more. */
const LONG_SUITES = /\/tests\/(conformance\/|systems\/langgraph\/|crash\/kills|package\/readme|cli\/ui\/server\.slow)/;

/**
 * Vitest begins with the files that took longest in the last run. Without a last run it begins with the largest files:
 * then the longest suites came last, while a processor was idle.
 */
export class LongSuitesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG_SUITES.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
