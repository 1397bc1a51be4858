import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** Ends a run with the line that programs look for: `N passed, N failed`, and `, N skipped` where there are any. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      for (const test of tests) {
        const { state } = test.result();
        if (state === "passed" || state === "skipped") counts[state] += 1;
        else counts.failed += 1;
      }
      // A file that fails outside its tests (an import, a hook) has failed, though each of its tests may have passed.
      if (module.state() === "failed" && tests.every((test) => test.result().state !== "failed")) counts.failed += 1;
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}
