import type { Reporter, SerializedError, TestCase, TestModule } from "vitest/node";

/**
 * Ends a run with the line that programs parse: `N passed, N failed`, and `, N skipped` if tests were skipped. Before
 * it, prints the counts of LangGraph's own suite on each storage, and the seed.
 */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      const ofModule = countsOf(module.children.allTests());
      counts.passed += ofModule.passed;
      counts.skipped += ofModule.skipped;
      // A file that fails outside its tests (in an import or a hook) counts as failed, though each of its tests may
      // have passed.
      counts.failed += ofModule.failed || (module.state() === "failed" ? 1 : 0);
      for (const suite of module.children.suites()) {
        if (!suite.name.startsWith("LangGraph's suite on")) continue;
        const { passed, failed, skipped } = countsOf(suite.children.allTests());
        process.stdout.write(`${suite.name}: ${passed} passed, ${failed} failed, ${skipped} skipped\n`);
      }
    }
    process.stdout.write(`The seed of random tests: WAYMARK_SEED=${process.env["WAYMARK_SEED"]}\n`);
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}

function countsOf(tests: Iterable<TestCase>) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const test of tests) {
    const { state } = test.result();
    // A test that hasn't ended counts as failed.
    counts[state === "pending" ? "failed" : state] += 1;
  }
  return counts;
}
