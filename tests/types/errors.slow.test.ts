import ts from "typescript";
import { expect, it } from "vitest";

it("a misspelled or wrong option of a step is one error at that option", () => {
  const program = `
    import type { Run } from "waymark";
    export const misspelled = (run: Run) => run.step("a", () => 1, { timeout: 5 });
    export const wrong = (run: Run) => run.step("b", () => 1, { retry: 3 });`;
  expect(errorsIn(program)).toEqual([
    expect.stringMatching(/^timeout: .*'timeout' does not exist in type 'StepOptions<.*'timeoutMs'\?$/),
    "retry: Type 'number' is not assignable to type 'StepRetry'.",
  ]);
});

/**
 * Returns the errors of a program that imports the package, each with its first line and the text that it points at.
 */
function errorsIn(text: string): string[] {
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile("tsconfig.json", ts.sys.readFile).config,
    ts.sys,
    process.cwd(),
  );
  const host = ts.createCompilerHost(options);
  const path = `${import.meta.dirname}/program-of-a-test.ts`;
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) =>
    name === path ? ts.createSourceFile(name, text, ts.ScriptTarget.Latest) : read(name, ...rest);
  const program = ts.createProgram([path], { ...options, noEmit: true }, host);
  return program.getSemanticDiagnostics(program.getSourceFile(path)).map(({ messageText, start = 0, length = 0 }) => {
    const [line = ""] = ts.flattenDiagnosticMessageText(messageText, "\n").split("\n");
    return `${text.slice(start, start + length)}: ${line}`;
  });
}
