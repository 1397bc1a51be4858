import { expect, it } from "vitest";
import { makePayload } from "waymark/adapter";

it("a payload has at most 64 MiB, unless `maxBytes` is set", () => {
  const context = {
    taskId: "t",
    id: "c1",
    createdAt: "2026-11-21T12:00:00.000Z",
    status: "running",
    stateVersion: 1,
  } as const;
  expect(() => makePayload("x".repeat(64 * 1024 * 1024), { context })).toThrow(
    expect.objectContaining({ code: "PAYLOAD_TOO_LARGE" }),
  );
});
