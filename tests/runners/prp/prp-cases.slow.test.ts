import { join } from "node:path";
import { expect, it } from "vitest";
import { countingCoder, Session } from "./session.js";

const CASES = new URL("../../fixtures/prp-cases/", import.meta.url).pathname;

/** How the gates end when they run. */
const ENDS: Readonly<Record<string, { readonly success: boolean; readonly exitCode?: number }>> = {
  andlist: { success: false, exitCode: 1 },
  andlast: { success: false, exitCode: 1 },
  grepq: { success: true },
  head: { success: true },
  grepnone: { success: false, exitCode: 1 },
  python: { success: true },
};

it.each(Object.entries(ENDS))(
  "%s, a shortened PRP from people, ends as a person sees it",
  async (name, { success, exitCode }) => {
    const session = await Session.create();
    const coder = countingCoder();

    const result = await session.executor({ coder, maxFixAttempts: 0 }).execute(join(CASES, `${name}.md`));

    expect(result.success).toBe(success);
    expect(coder.calls).toBe(1);
    if (exitCode !== undefined) expect(result.validationResults[0]?.exitCode).toBe(exitCode);
  },
);
