import { setImmediate } from "node:timers";
import { expect, it } from "vitest";
import { WriteQueue } from "../../../src/runs/write-queue.js";

it("a write begins after all promises that are settled have called back, also if a timer's callback asks for it", async () => {
  const order: string[] = [];
  const queue = new WriteQueue();
  await new Promise<void>((resolve, reject) => {
    setImmediate(() => {
      queue.run(async () => void order.push("write")).then(resolve, reject);
      void Promise.resolve()
        .then(() => order.push("first"))
        .then(() => order.push("second"))
        .then(() => order.push("third"));
    });
  });
  expect(order).toEqual(["first", "second", "third", "write"]);
});
