// @ts-check
import { createHash } from "node:crypto";

/**
 * Returns an agent's state in the middle of its work, about 9 KB as JSON: a conversation, a plan, and the edited files.
 *
 * @param {number} turn - A number that makes the states of a task differ.
 */
export function agentState(turn) {
  return {
    task: "P1.M3.T2.S4",
    turn,
    model: "a-model-of-2026",
    startedAt: "2026-11-21T09:14:07.120Z",
    budget: { tokens: 180_000 - turn, seconds: 3600, retries: 2 },
    messages: Array.from({ length: 18 }, (_, index) => message(index)),
    plan: Array.from({ length: 12 }, (_, index) => ({
      id: `step-${index + 1}`,
      title: `Move the ${SUBJECTS[index % SUBJECTS.length]} behind the new interface`,
      status: index < 5 ? "done" : index === 5 ? "running" : "open",
      dependsOn: index === 0 ? [] : [`step-${index}`],
    })),
    files: Array.from({ length: 16 }, (_, index) => ({
      path: `packages/server/src/${SUBJECTS[index % SUBJECTS.length]}/handler-${index}.ts`,
      sha: (index * 2_654_435_761).toString(16).padStart(12, "0"),
      lines: 40 + index * 13,
      changed: index % 3 === 0,
    })),
    validation: { level: 2, passed: ["lint", "types"], failed: [], log: null },
  };
}

const SUBJECTS = ["session store", "rate limiter", "upload queue", "audit trail", "webhook sender"];

/** @param {number} index */
function message(index) {
  if (index % 3 === 2) {
    return {
      role: "tool",
      tool: "run",
      input: { command: `npx vitest run tests/handler-${index}.test.ts`, timeoutMs: 60_000 },
      output: ` ✓ tests/handler-${index}.test.ts (${index + 3} tests) ${index * 17}ms\n\n Test Files  1 passed (1)\n      Tests  ${index + 3} passed (${index + 3})\n`,
      exitCode: 0,
    };
  }
  return {
    role: index % 3 === 0 ? "user" : "assistant",
    content:
      `The ${SUBJECTS[index % SUBJECTS.length]} still reads its configuration at import time, so two tests in one process see ` +
      `each other's values. I'd pass it to the constructor instead and keep the old function as a thin wrapper until ` +
      `its ${index + 2} callers have moved. That is a change in "handler-${index}.ts" and in its test; nothing else reads it.\n`,
  };
}

/**
 * Returns conversations of 16 messages, about 9 KB as JSON. Each differs from the previous conversation in one message.
 *
 * @param {number} count
 */
export function conversations(count) {
  let number = 0;
  const word = () => createHash("sha256").update(`${number++}`).digest("hex");
  const next = () => ({ role: "assistant", content: Array.from({ length: 8 }, word).join(" ") });
  let messages = Array.from({ length: 16 }, next);
  return Array.from({ length: count }, (_, turn) => {
    messages = messages.with(turn % messages.length, next());
    return { turn, messages };
  });
}
