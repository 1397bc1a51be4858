import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Matches short files that run other files' suites, and files that take a minute or more. */
const LONG_SUITES = /\/tests\/(conformance\/|systems\/langgraph\/|crash\/kills|package\/readme|cli\/ui\/server\.slow)/;

/**
 * Vitest begins with the files that took longest in the last run, or without a last run, with the largest files. In
 * that case, the longest suites would come last while a processor is idle.
 */
export class LongSuitesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG_SUITES.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
